def crossing(exact, sampled):
    """The number of classes from which the sampled curve is below the exact one, interpolated between logarithms."""
    both = pd.DataFrame({"exact": exact, "sampled": sampled}).dropna().sort_index()
    ratio = both["sampled"] / both["exact"]
    at = len(ratio)
    while at > 0 and ratio.iloc[at - 1] < 1:
        at -= 1
    if at == len(ratio):
        return f"nowhere up to C = {ratio.index[-1]:,.0f}"
    most = f"; at C = {ratio.index[-1]:,.0f} {1 / ratio.iloc[-1]:.2f} times less"
    if at == 0:
        return f"from C = {ratio.index[0]:,.0f} on, the fewest classes here{most}"
    x0, x1 = math.log(ratio.index[at - 1]), math.log(ratio.index[at])
    y0, y1 = math.log(ratio.iloc[at - 1]), math.log(ratio.iloc[at])
    return f"from C = {math.exp(x0 + (x1 - x0) * y0 / (y0 - y1)):,.0f} on{most}"


def growth(own, way, rate):
    """How the peak memory grows from the fewest ranks to the most."""
    curve = curve_of(own, "ranks", way, rate)
    if len(curve) < 2:
        return None
    least, most = curve.iloc[0], curve.iloc[-1]
    return (f"{least['memory'] / 2**20:,.1f} MiB on {least['ranks']:g} rank{'s' if least['ranks'] > 1 else ''}, "
            f"{most['memory'] / 2**20:,.1f} MiB on {most['ranks']:g}")


for title, varying, _, own in series:
    for way in ways:
        for rate in shown_rates[1:] if varying == "classes" else []:
            for name, column in (("a step takes less time", "seconds"), ("a rank holds less", "memory")):
                some = own[own["is_timed"]] if column == "seconds" else own
                exact, sampled = (
                    curve_of(some, "classes", way, value).set_index("classes")[column] for value in (1.0, rate)
                )
                if len(exact.index.intersection(sampled.index)):
                    print(f"{way}, rate {rate:g}: {name} than with all classes {crossing(exact, sampled)}.")
        for rate in shown_rates if title == "Over ranks, weak" else []:
            grown = growth(own, way, rate)
            if grown:
                print(f"{way}{'' if rate == 1 else f', rate {rate:g}'}, classes and batch per rank fixed: {grown}.")
