"""Lists that are data: blocks of `key: value`, an empty line between blocks.

A value of several lines, or one whose first spaces count, stands below its key,
each line behind `  | `. A line that begins with `#` is a comment.
"""


class ListError(ValueError):
    """A list that cannot be read; the message names file and line."""


def parse(text, path, keys, required):
    """The blocks of `text` as dictionaries, of `keys` alone and with all of
    `required`."""
    blocks = []
    block = None
    key = None
    # Keys of this block whose value has lines below.
    begun = set()
    for number, line in enumerate(text.split("\n"), start=1):
        at = f"{path}:{number}"
        if line.startswith("#"):
            continue
        if line.startswith("  |"):
            if key is None:
                raise ListError(f"{at}: a line of a value without a key")
            more = line[4:]
            block[key] = f"{block[key]}\n{more}" if key in begun else more
            begun.add(key)
            continue
        if not line.strip():
            block, key = None, None
            continue
        key, colon, value = line.partition(":")
        if not colon or key not in keys:
            raise ListError(
                f"{at}: want one of {', '.join(keys)}: got {line!r}"
            )
        if block is None:
            block = {"line": number}
            begun.clear()
            blocks.append(block)
        if key in block:
            raise ListError(f"{at}: a second {key!r} in one block")
        block[key] = value.strip()
    for block in blocks:
        for key in required:
            if key not in block:
                raise ListError(
                    f"{path}:{block['line']}: a block without {key!r}"
                )
    return blocks


def read(path, keys, required):
    with open(path, encoding="utf-8") as file:
        return parse(file.read(), path, keys, required)


def unique(blocks, key, path):
    """`blocks` by the value of `key`, which no two share."""
    by_key = {}
    for block in blocks:
        if block[key] in by_key:
            raise ListError(
                f"{path}:{block['line']}: {block[key]!r} stands twice, first "
                f"in line {by_key[block[key]]['line']}"
            )
        by_key[block[key]] = block
    return by_key
