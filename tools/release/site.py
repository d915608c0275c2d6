"""The pages of both products as a site with search: `make site`.

Pages, and the files of the repository to which they link, are copied as they lie, so that every link holds as it is.
The menu is made of the table in docs/README.md, and the library's part of the links of its README.
"""

import json
import re
import shutil
import subprocess
import sys
from os.path import normpath
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SITE = PROJECT / ".cache" / "site"
LIBRARY = "layers/conditional_writes"
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]+)")
MERMAID = {"name": "mermaid", "class": "mermaid", "format": "pymdownx.superfences.fence_code_format"}
ROW = re.compile(r"^\|(.*?)\| .*?\]\((.*?)\)", re.MULTILINE)


def pages() -> list[str]:
    """The paths of all pages in the repository."""
    patterns = ("*.md", "docs/**/*.md", f"{LIBRARY}/**/*.md")
    return sorted(str(page.relative_to(PROJECT)) for pattern in patterns for page in PROJECT.glob(pattern))


def linked(page: str) -> list[str]:
    """The paths of the files to which a page links, in its order."""
    links = LINK.findall(CODE.sub("", (PROJECT / page).read_text()))
    paths = dict.fromkeys(normpath(Path(page).parent / link) for link in links if "://" not in link)
    return [path for path in paths if (PROJECT / path).is_file()]


def menu() -> list[dict[str, list[str]]]:
    """A section for each wish in docs/README.md, the decisions, and the rest. Each page is in it once."""
    sections: dict[str, list[str]] = {"Teller": ["README.md"]}
    for wish, link in ROW.findall((PROJECT / "docs/README.md").read_text()):
        if name := wish.replace("*", "").strip():
            section = sections.setdefault(name[0].upper() + name[1:], [])
        section.append(normpath(f"docs/{link}"))
    sections["Use the library"] += [page for page in linked(f"{LIBRARY}/README.md") if page.endswith(".md")]
    sections["Decisions"] = [page for page in pages() if page.startswith("docs/decisions/")]
    sections["More"] = [page for page in pages() if page != "docs/README.md"]
    seen: set[str] = set()
    for found in sections.values():
        found[:] = [page for page in dict.fromkeys(found) if page not in seen]
        seen.update(found)
    return [{name: found} for name, found in sections.items()]


def main() -> int:
    shutil.rmtree(SITE, ignore_errors=True)
    for path in {*pages(), *(path for page in pages() for path in linked(page))}:
        (SITE / "pages" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / path, SITE / "pages" / path)
    settings = {
        "site_name": "Teller",
        "docs_dir": "pages",
        "site_dir": "html",
        "use_directory_urls": False,  # so that the files can be opened without a server
        "nav": menu(),
        "theme": {"font": False, "features": ["navigation.indexes", "navigation.top", "content.code.copy"]},
        "plugins": ["search"],
        "markdown_extensions": [
            "tables",
            "attr_list",
            {"toc": {"permalink": True}},
            {"pymdownx.superfences": {"custom_fences": [MERMAID]}},
        ],
    }
    (SITE / "mkdocs.yml").write_text(json.dumps(settings))  # JSON is YAML
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", SITE / "mkdocs.yml"], check=False
    )
    print(f"{SITE.relative_to(PROJECT)}/html/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
