"""Hooks of MkDocs: parts of the performance page, public names, code without prompts, pictures in full."""

import re
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from multiword.public import RECORDS
from ozaki.public import PUBLIC

ROOT = Path(__file__).parents[1]

FRONT_ENDS = {"ozaki.dask": "dask", "ozaki.torch": "torch", "ozaki.jax": "jax"}
"""Modules of forms of functions of `ozaki`, without records of their own, which may lack what they need."""


def on_config(config):
    """List the pages on performance behind the first one, in its order and its groups."""
    index = Path(config["docs_dir"], "performance.md").read_text()
    (pages,) = (entry["Performance"] for entry in config["nav"] if "Performance" in entry)
    pages[1:1] = listed(index)
    return config


def listed(index):
    """Return a page's list of pages on performance as entries of the side bar, groups below their names.

    >>> listed("- [A](performance/a.md): first.\\n- Others:\\n    - [B](performance/b.md): second.")
    ['performance/a.md', {'Others': ['performance/b.md']}]
    """
    entries = []
    page = re.compile(r"^(    )?- (?:\[[^]]*\]\((performance/\S+)\).*|(\w[^:]*):)$", re.MULTILINE)
    for below, path, name in page.findall(index):
        if name:
            entries.append({name: []})
        elif below:
            next(iter(entries[-1].values())).append(path)
        else:
            entries.append(path)
    return entries


def on_page_markdown(markdown, **_):
    """Put in the records; call examples `pycon`: prompts and output are then set apart, and are not copied.

    >>> on_page_markdown("```python\\n>>> 1\\n1\\n```")
    '```pycon\\n>>> 1\\n1\\n```'
    """
    markdown = with_homes(with_records(markdown))
    return re.sub(r"^```(?:python|\{\.python \.gpu\})\n(?=>>> )", "```pycon\n", markdown, flags=re.MULTILINE)


def with_homes(markdown):
    """Return a page of the reference that asks for functions, and not for modules of their names.

    >>> with_homes("::: ozaki.sparse.linalg.cg")
    '::: ozaki.sparse.linalg.cg.cg'
    """

    def home(asked):
        name = asked[1]
        is_module = ROOT.joinpath(*name.split(".")).with_suffix(".py").exists()
        return f"::: {name}.{name.rpartition('.')[2]}" if is_module else asked[0]

    return re.sub(r"^::: (\S+\.\S+)$", home, markdown, flags=re.MULTILINE)


def with_records(markdown):
    """Return a page of the reference with the public names that it asks for, but those that it has itself.

    >>> with_records("<!-- records of ozaki: Comparing results -->")
    '::: ozaki.fingerprint'
    """

    def blocks(asked):
        module, heading = asked.groups()
        if (front := FRONT_ENDS.get(module)) is not None:
            forms = [r.form(front) for r in PUBLIC.values() if heading in (None, r.heading)]
            names = list(dict.fromkeys(filter(None, forms)))
        else:
            import_module(module)
            names = [r.name for r in RECORDS.values() if (r.module, r.heading) == (module, heading)]
        return "\n\n".join(
            f"::: {module}.{name}" for name in names if f"::: {module}.{name}\n" not in markdown
        )

    return re.sub(r"^<!-- records of ([\w.]+)(?:: (.*))? -->$", blocks, markdown, flags=re.MULTILINE)


def on_page_content(html, **_):
    """Link every picture that is no link yet to itself.

    >>> on_page_content('<p><img alt="x" src="y.png" /></p>')
    '<p><a href="y.png"><img alt="x" src="y.png" /></a></p>'
    """
    return re.sub(r'(?<!">)(<img [^>]*src="([^"]+)"[^>]*>)', r'<a href="\2">\1</a>', html)
