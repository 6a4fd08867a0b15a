def percent(share):
    return math.nan if share is None else 100 * share


totals = memory.groupby(["variant", "rank"])["bytes"].sum()
rows = []
for variant in variants:
    ranks = totals.get(variant["name"], pd.Series(dtype=float))
    evaluation = variant["evaluation"] or {}
    verification = evaluation.get("verification") or {}
    rows.append(
        {
            "variant": variant["name"],
            "status": variant["status"],
            "first loss": variant["loss"]["first"],
            "last loss": variant["loss"]["last"],
            "s a step": variant["step_seconds"]["median"],
            "images/s": variant["samples_per_second"],
            "over naive": variant["speedup_over_naive"],
            "ideal": variant["ideal_speedup"],
            "share of it, %": percent(variant["share_of_ideal"]),
            "bubble, %": percent(variant["bubble_fraction"] if variant["schedule"] else None),
            "largest rank, MiB": ranks.max() / 2**20,
            "largest / mean": ranks.max() / ranks.mean(),
            "sent, MiB": sum(rank["sent_bytes"] for rank in variant["ranks"]) / 2**20,
            "rank-1, %": percent(evaluation.get("rank1")),
            "verification, %": percent(verification.get("accuracy")),
        }
    )
table = pd.DataFrame(rows).set_index("variant").dropna(axis="columns", how="all")
table.style.format(precision=4, na_rep="-", formatter={"images/s": "{:.1f}", "over naive": "{:.2f}", "ideal": "{:.2f}",
    "share of it, %": "{:.1f}", "bubble, %": "{:.1f}", "largest rank, MiB": "{:.1f}", "largest / mean": "{:.2f}",
    "sent, MiB": "{:.1f}", "rank-1, %": "{:.2f}", "verification, %": "{:.2f}"})
