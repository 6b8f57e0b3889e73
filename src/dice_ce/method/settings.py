"""All settings of the method; each is declared beside its algorithm."""

from __future__ import annotations

from dataclasses import dataclass, field

from dice_ce.method.beyond.listing import ListingSettings
from dice_ce.method.beyond.looks import LooksSettings
from dice_ce.method.beyond.prior import PriorSettings
from dice_ce.method.beyond.standing import StandingSettings
from dice_ce.method.converger import ConvergerSettings
from dice_ce.method.selector import SelectorSettings
from dice_ce.method.weaver import WeaverSettings


@dataclass(frozen=True)
class Settings:
    """What a profile of a bundle holds."""

    selector: SelectorSettings = field(default_factory=SelectorSettings)
    weaver: WeaverSettings = field(default_factory=WeaverSettings)
    looks: LooksSettings = field(default_factory=LooksSettings)
    prior: PriorSettings = field(default_factory=PriorSettings)
    converger: ConvergerSettings = field(default_factory=ConvergerSettings)
    listing: ListingSettings = field(default_factory=ListingSettings)
    standing: StandingSettings = field(default_factory=StandingSettings)
