"""A folder of bases with length arms, whose facts name hosts and whose background names nobody."""

SIZES = {"facts_s": 6, "facts_m": 12, "facts_l": 15, "arm_neutral_m": 12, "arm_neutral_l": 15}
_OPENINGS = ("monitors mail", "runs the network", "answers the phones", "keeps the servers", "reads the logs")
_TASK = (
    "Say which hosts of office {} are to be cut off first, and give the reason for each of them in a line."
)


def facts_of(base):
    """Return the facts of a base, in full and in short."""
    facts = []
    for number in range(sum(SIZES[f"facts_{name}"] for name in "sml")):
        clock, mails = f"{number % 24:02d}:{base + 10:02d}", 100 * base + number + 7
        long = f"At {clock} the host H{number} sent {mails} mails to a new address far outside of the firm."
        facts.append((long, f"{clock} H{number}: {mails} mails outside"))
    return facts


def base_of(base, **changes):
    """Return a base as TOML; changes give the facts of a list, or take it away."""
    long, short = zip(*facts_of(base), strict=True)
    lists = {}
    start = 0
    for name, count in SIZES.items():
        if name.startswith("facts"):
            lists[name] = long[start : start + count]
            start += count
        else:
            first = 300 if name.endswith("m") else 400
            use = f"has {base + 20} chairs and a table, and serves for tea at noon"
            lists[name] = [
                f"The room {number} of the old house {use}." for number in range(first, first + count)
            ]
    lists["arm_short"] = short
    lists |= changes
    lines = [f'base = "base_{base:02d}"', 'scenario = "SOC_INCIDENT"', f'category = "mail {base % 5}"']
    lines += [
        f'opening = "Your team {_OPENINGS[base % 5]} for office {base}."',
        f'task = "{_TASK.format(base)}"',
    ]
    lines += ['data_sources = ["written for a test"]']
    lines += [f"{name} = {list(facts)}".replace("'", '"') for name, facts in lists.items() if facts]
    return "\n".join(lines) + "\n"


def write_bases(folder, with_arms, without=0):
    """Write a dataset of bases with arms and of some without."""
    folder.mkdir(exist_ok=True)
    arms = dict.fromkeys(name for name in (*SIZES, "arm_short") if name.startswith("arm"))
    for base in range(with_arms + without):
        changes = {} if base < with_arms else arms
        (folder / f"base_{base:02d}.toml").write_text(base_of(base, **changes))
    return folder
