def percent(share):
    return math.nan if share is None else 100 * share


def show_table(style):
    """A table, the name of whose index stands at the head of its column."""
    style.data.rename_axis(index=None, columns=style.index.name, inplace=True)
    display(HTML(f'<div class="wide">{style.format_index(escape="html").to_html()}</div>'))


def show(columns, formats):
    """A table with one row per variant and the columns that any variant has."""
    table = pd.DataFrame(columns, index=pd.Index(names, name="variant")).dropna(axis="columns", how="all")
    if len(table.columns):
        show_table(table.style.format(precision=4, na_rep="-", formatter=formats))


totals = memory.groupby(["variant", "rank"])["bytes"].sum()
by_rank = [totals.get(name, pd.Series(dtype=float)) for name in names]
# A rank whose process has ended leaves no measurements.
measured = [ranks[ranks > 0] for ranks in by_rank]
show(
    {
        "first loss": [variant["loss"]["first"] for variant in variants],
        "last loss": [variant["loss"]["last"] for variant in variants],
        "step time (s)": [variant["step_seconds"]["median"] for variant in variants],
        "images/s": [variant["samples_per_second"] for variant in variants],
        "peak memory (MiB)": [ranks.max() / 2**20 for ranks in by_rank],
        "max/mean": [ranks.max() / ranks.mean() for ranks in measured],
        "bytes sent (MiB)": [sum(rank["sent_bytes"] for rank in variant["ranks"]) / 2**20 for variant in variants],
    },
    {"images/s": "{:.1f}", "peak memory (MiB)": "{:.1f}", "max/mean": "{:.2f}", "bytes sent (MiB)": "{:.1f}"},
)
show(
    {
        "speedup over naive": [variant["speedup_over_naive"] for variant in variants],
        "ideal": [variant["ideal_speedup"] for variant in variants],
        "share of ideal (%)": [percent(variant["share_of_ideal"]) for variant in variants],
        "bubble (%)": [percent(variant["bubble_fraction"] if variant["schedule"] else None) for variant in variants],
    },
    {"speedup over naive": "{:.2f}", "ideal": "{:.2f}", "share of ideal (%)": "{:.1f}", "bubble (%)": "{:.1f}"},
)
evaluations = [variant["evaluation"] or {} for variant in variants]
show(
    {
        "rank-1 (%)": [percent(each.get("rank1")) for each in evaluations],
        "verification (%)": [percent((each.get("verification") or {}).get("accuracy")) for each in evaluations],
    },
    {"rank-1 (%)": "{:.2f}", "verification (%)": "{:.2f}"},
)
