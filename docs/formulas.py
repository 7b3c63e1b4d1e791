"""Formulas of the pages: `math` blocks, in LaTeX, as MathML, which browsers draw without any script."""

import re
from html import escape

try:
    from latex2mathml.converter import convert
except ImportError:  # the page is still whole: the formula stands there in LaTeX
    convert = None

BAR = r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'


def formula(source, language, css_class, options, md, **kwargs):
    """The block's HTML: what pymdownx.superfences asks of a custom fence.

    Where the screen is narrow, a line may end at each `\\qquad` and before each `\\allowbreak`.

    >>> formula(r"x^2 \\allowbreak = y", "math", "math", {}, None).count("<math ") or convert
    2
    """
    if convert is None:
        return f"<pre>{escape(source)}</pre>"
    math = ""
    for part in re.split(r"(\\qquad|\\allowbreak)", source):
        drawn = convert(part, display="block").replace('display="block"', 'displaystyle="true"', 1)
        math += {r"\qquad": " ", r"\allowbreak": "<wbr>"}.get(part, drawn)
    # Bars of |A||B| and ‖a‖ are brackets: without this they would be set as operators, with space around.
    math = re.sub(r"<mo[^>]*>(&#x0007C;|&#x02016;)</mo>", BAR, math)
    return f'<p class="formula">{math}</p>'


def on_config(config):
    """MkDocs' hook: make `math` one of the fences that superfences knows."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "math", "class": "math", "format": formula})
    return config
