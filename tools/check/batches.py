"""Which sources can be compiled together, in one file that includes them one after another.

    batches.py SIZE SOURCE...     one line a batch of at most SIZE, its sources set apart by ;

In such a file all anonymous namespaces are one. So that no source sees another's names, two
share a batch only where neither mentions a name that the other declares for itself.
"""

import pathlib
import re
import sys

ANONYMOUS = re.compile(r"^namespace \{\n(.*?)^\}  // namespace", re.S | re.M)
# What stands at the start of a line there: the name before the first bracket, value or end.
DECLARED = re.compile(r"^(?!using |namespace |TEST)[\w\[].*?[\s*&>](?!const\b|operator\b)([A-Za-z_]\w*)\s*"
                      r"(?:[({\[;=]|:(?!:)|final\b|$)", re.M)
MADE_BY_MACRO = re.compile(r"^(?:#define |MATCHER\w*\()(\w+)", re.M)
# Two files may both say one of these, if they say the same.
ALIAS = re.compile(r"^(?:using (\w+) = .*;|namespace (\w+) = .*;|using [\w:]*::(\w+);)$", re.M)
OPENS_NAMESPACE = re.compile(r"^using namespace ", re.M)
# Comments, texts, and names looked up in a class or a namespace that is said.
NOT_SEEN = re.compile(r'//.*|"(?:\\.|[^"\\\n])*"|(?:(?<!\.)\.|->|::)\w+')


class Source:
    def __init__(self, path):
        self.path = path
        text = pathlib.Path(path).read_text()
        self.words = set(re.findall(r"\w+", NOT_SEEN.sub("", text)))
        self.alone = OPENS_NAMESPACE.search(text) is not None
        self.own = {name: None for name in MADE_BY_MACRO.findall(text)}
        for body in ANONYMOUS.findall(text):
            self.own.update((name, None) for name in DECLARED.findall(body))
        for alias in ALIAS.finditer(text):
            self.own[alias[alias.lastindex]] = alias[0]

    def disturbs(self, other):
        return any(name in other.words and (alias is None or other.own.get(name) != alias)
                   for name, alias in self.own.items())


def batches(paths, size):
    """In the order given, each source in the first batch that has room and suits it."""
    found = []
    for source in map(Source, paths):
        for batch in found:
            if (len(batch) < size and not source.alone and not batch[0].alone
                    and not any(source.disturbs(o) or o.disturbs(source) for o in batch)):
                batch.append(source)
                break
        else:
            found.append([source])
    return [[source.path for source in batch] for batch in found]


if __name__ == "__main__":
    for batch in batches(sys.argv[2:], int(sys.argv[1])):
        print(";".join(map(str, batch)))
