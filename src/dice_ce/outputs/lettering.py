"""Capital letters and digits drawn into images, without a font library."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# 5x7 pixels: five columns of seven bits each, the lowest bit on top.
GLYPHS = {
    " ": "0000000000", "-": "0808080808", ":": "0036360000", ".": "0060600000", ",": "0050300000",
    "(": "001c224100", ")": "0041221c00", "/": "2010080402", "%": "2313086462", "?": "0201510906",
    "0": "3e5149453e", "1": "00427f4000", "2": "4261514946", "3": "2141454b31", "4": "1814127f10",
    "5": "2745454539", "6": "3c4a494930", "7": "0171090503", "8": "3649494936", "9": "064949291e",
    "A": "7e1111117e", "B": "7f49494936", "C": "3e41414122", "D": "7f4141221c", "E": "7f49494941",
    "F": "7f09090901", "G": "3e4149497a", "H": "7f0808087f", "I": "00417f4100", "J": "2040413f01",
    "K": "7f08142241", "L": "7f40404040", "M": "7f020c027f", "N": "7f0408107f", "O": "3e4141413e",
    "P": "7f09090906", "Q": "3e4151215e", "R": "7f09192946", "S": "4649494931", "T": "01017f0101",
    "U": "3f4040403f", "V": "1f2040201f", "W": "3f4038403f", "X": "6314081463", "Y": "0708700807",
    "Z": "6151494543",
}  # fmt: skip


def text_pixels(text: str, scale: int = 1) -> npt.NDArray[np.bool_]:
    """Draw a line of text as a mask of 7 * scale rows; what has no glyph becomes a question mark."""
    bits = "00".join(GLYPHS.get(letter, GLYPHS["?"]) for letter in text.upper())
    columns = np.frombuffer(bytes.fromhex(bits), np.uint8)
    pixels = (columns >> np.arange(7)[:, None]) & 1 == 1
    return np.asarray(pixels.repeat(scale, axis=0).repeat(scale, axis=1))


def write_text(
    image: npt.NDArray[np.uint8],
    text: str,
    x: int,
    y: int,
    *,
    scale: int = 1,
    colour: tuple[int, int, int] = (235, 235, 235),
) -> None:
    """Write into the image with the top left corner at (x, y); what lies outside is cut off."""
    pixels = text_pixels(text, scale)
    room = image[y : y + pixels.shape[0], x : x + pixels.shape[1]]
    room[pixels[: room.shape[0], : room.shape[1]]] = colour
