"""Hooks of MkDocs: the parts of the performance page, code without prompts, pictures at full size."""

import re
from pathlib import Path


def on_config(config):
    """List the parts of the performance page behind it, in its order."""
    index = Path(config["docs_dir"], "performance.md").read_text()
    (pages,) = (entry["Performance"] for entry in config["nav"] if "Performance" in entry)
    pages += re.findall(r"^- \[[^]]*\]\((performance/\S+)\)", index, re.MULTILINE)
    return config


def on_page_markdown(markdown, **_):
    """Call examples `pycon`: their prompts and output are then set apart, and are not copied.

    >>> on_page_markdown("```python\\n>>> 1\\n1\\n```")
    '```pycon\\n>>> 1\\n1\\n```'
    """
    return re.sub(r"^```(?:python|\{\.python \.gpu\})\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)


def on_page_content(html, **_):
    """Link every picture that is no link yet to itself.

    >>> on_page_content('<p><img alt="x" src="y.png" /></p>')
    '<p><a href="y.png"><img alt="x" src="y.png" /></a></p>'
    """
    return re.sub(r'(?<!">)(<img [^>]*src="([^"]+)"[^>]*>)', r'<a href="\2">\1</a>', html)
