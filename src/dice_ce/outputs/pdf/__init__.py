"""report.pdf: one to three pages to file and to sign. Laid out by WeasyPrint as PDF/A; the same results, fonts and
WeasyPrint give the same bytes.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from dice_ce.files import write_atomically
from dice_ce.outputs.results import Results

__all__ = ["export", "render_html", "render_pdf"]

HERE = Path(__file__).parent
VARIANT = "pdf/a-3b"


def export(results: Results, path: Path) -> None:
    """Write the PDF."""
    write_atomically(path, render_pdf(results))


def render_html(results: Results) -> str:
    """Fill in the template; whatever texts contain is escaped."""
    import jinja2

    from dice_ce.outputs.pdf.content import content_of

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return str(environment.get_template("report.html.jinja").render(content_of(results)))


def render_pdf(results: Results) -> bytes:
    """Lay the report out, once for all exports."""
    if "pdf" not in results.rendered:
        results.rendered["pdf"] = _lay_out(results)
    return results.rendered["pdf"]


def _lay_out(results: Results) -> bytes:
    import weasyprint
    from weasyprint.urls import URLFetcher

    # Where HarfBuzz-Subset is missing, fontTools takes its place and writes this, or the time of day, into fonts.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    only_inside = URLFetcher(allowed_protocols=("data",), allow_redirects=False)  # nothing from anywhere else
    page = weasyprint.HTML(string=render_html(results), url_fetcher=only_inside)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # WeasyPrint leaves its colour profile open
        pdf = page.write_pdf(
            stylesheets=[weasyprint.CSS(string=(HERE / "report.css").read_text(encoding="utf-8"))],
            pdf_variant=VARIANT,
            pdf_identifier=bytes.fromhex(results.digest[:32]),
        )
    assert isinstance(pdf, bytes)
    return pdf
