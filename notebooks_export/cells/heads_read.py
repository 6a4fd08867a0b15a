bytes_of = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "int8": 1, "none": 0}
ways = ["gathered", "transposed", "sharded", "fused", "fused, stash"]
colour_of = dict(zip(ways, ["#D55E00", "#E69F00", "#0072B2", "#009E73", "#CC79A7"]))


def weight_bytes(head, copies=1):
    """The bytes of `copies` tensors like the weights of a rank's classes."""
    own = math.ceil(head["classes"] / head["ranks"]) * head["features"]
    return own * copies * bytes_of[head["weights"]]


def state_bytes(head):
    """The bytes of weights and velocity of a rank's classes."""
    velocity = bytes_of[head["momentum"]] / bytes_of[head["weights"]]
    return weight_bytes(head, 1 + velocity)


def logit_bytes(head, batch, copies=1):
    """The bytes of `copies` f32 copies of the logits of a rank's classes, or of its sample of them."""
    return copies * head["rate"] * batch * head["classes"] / head["ranks"] * 4


def head_bytes(head, batch):
    """The bytes that the fullest rank holds: state, logits (of one class tile if fused), rows of a sample, embeddings twice."""
    copies = {"gathered": 2 * head["ranks"], "transposed": 3, "sharded": 1, "fused": 1 if head["stash"] else 0}
    tile = min(head["classes"] / head["ranks"], 2**19 / head["features"]) if head["logits"] == "fused" else 0
    sample = head["rate"] * weight_bytes(head) if head["rate"] < 1 and head["logits"] != "fused" else 0
    logits = logit_bytes(head, batch, copies[head["logits"]]) + batch * tile * 4
    return state_bytes(head) + logits + sample + 2 * batch * head["features"] * 4


def product_flops(head, batch):
    """The operations of one rank in one step: every product takes each row and each class once."""
    products = 3 if head["stash"] else 4
    return products * 2 * head["rate"] * batch * head["classes"] / head["ranks"] * head["features"]


rows = []
for variant in variants:
    head = variant["head"]
    # Several heads, each of its own data set, are a list: their costs are a sum.
    if variant["status"] != "ok" or isinstance(head, list) or head["parallel"] != "sharded":
        continue
    batch = variant["batch"] / head.get("copies", 1)  # of the ranks that share the classes
    sent = variant["sent_in_step"] or {"counted": 0, "formula": {"total": 0}}
    rows.append(
        {
            "way": head["logits"] + (", stash" if head["stash"] else ""),
            "rate": head["rate"],
            "classes": head["classes"],
            "ranks": head["ranks"],
            "batch": batch,
            "classes a rank": head["classes"] / head["ranks"],
            "batch a rank": batch / head["ranks"],
            "is_run": variant["device"] != "plan",
            "seconds": variant["step_seconds"]["median"],
            "flops": product_flops(head, batch),
            "memory": max(rank["peak_bytes"]["total"] for rank in variant["ranks"]),
            "memory formula": head_bytes(head, batch),
            "published": weight_bytes(head, 3) + logit_bytes(head, batch, 2),
            "published, sparse": weight_bytes(head, 2) + logit_bytes(head, batch, 2),
            "sent": sent["counted"],
            "sent formula": sent["formula"]["total"],
        }
    )
points = pd.DataFrame(rows)
series = []
if len(points):
    # Times on plan are a model's: they are shown only where nothing was run.
    points["is_timed"] = points["is_run"] | (not points["is_run"].any())
    best_rate = (points["flops"] / points["seconds"])[points["is_timed"]].max()
    points["seconds formula"] = points["flops"] / best_rate
    for title, varying, fixed in (
        ("Over classes", "classes", ["ranks", "batch"]),
        ("Over ranks, strong", "ranks", ["classes", "batch"]),
        ("Over ranks, weak", "ranks", ["classes a rank", "batch a rank"]),
        ("Over the rate", "rate", ["classes", "ranks", "batch"]),
    ):
        # The points that agree in what is fixed, and between them have the most values of what varies.
        own = max((group for _, group in points.groupby(fixed)), key=lambda group: group[varying].nunique())
        if own[varying].nunique() > 1:
            series.append((title, varying, fixed, own))
    # Besides all classes, the rate that most heads were run with; the others are in their own row.
    rates = points[points["rate"] < 1]["rate"].mode()
    shown_rates = [1.0, *rates[:1]]


def curve_of(own, varying, way, rate=None):
    """The points of one way, and of one rate if it is given, in order."""
    curve = own[(own["way"] == way) & ((own["rate"] == rate) | (rate is None))]
    return curve.sort_values(varying).drop_duplicates(varying)
