"""Programs drawn at random: few layers of the sizes that real models have, written in the several
ways in which people write them, so that XLA's kernels are seen at many shapes in little time.

`draw(count, seed)` gives names and makers as `CASES` of jax_models.py has them; the same seed draws
the same programs.
"""
import random

import jax
import jax.numpy as jnp
from jax import lax

import jax_models as models
from jax_models import shape_of

WIDTHS = [512, 640, 768, 896, 1024, 1152, 1280, 1536, 1600, 1792, 2048, 2304, 2560, 2880, 3072, 3584, 4096, 4608, 5120,
          6144, 7168, 8192]
VOCABULARIES = [8192, 32000, 32768, 50257, 50304, 65536, 102400, 128256, 151936]


def causal_mask(s, t, causal):
    return jnp.tril(jnp.ones((s, t), bool), t - s) if causal else None


def attention_repeated(q, k, v, causal):
    """Keys and values repeated for their queries, scores as [b, h, s, t], softmax in 32 bits."""
    groups = q.shape[2] // k.shape[2]
    if groups > 1:
        k, v = jnp.repeat(k, groups, 2), jnp.repeat(v, groups, 2)
    scores = jnp.einsum("bshd,bthd->bhst", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    mask = causal_mask(q.shape[1], k.shape[1], causal)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e9)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores, -1).astype(q.dtype), v)


def attention_grouped(q, k, v, causal):
    """Queries grouped by the keys they share."""
    b, s, h, d = q.shape
    kv = k.shape[2]
    scores = jnp.einsum("bskgd,btkd->bkgst", q.reshape(b, s, kv, h // kv, d), k, preferred_element_type=jnp.float32)
    scores = scores * d ** -0.5
    mask = causal_mask(s, k.shape[1], causal)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    return jnp.einsum("bkgst,btkd->bskgd", jax.nn.softmax(scores, -1).astype(q.dtype), v).reshape(b, s, h, d)


def attention_heads_first(q, k, v, causal):
    """Heads moved before positions, products as matmul writes them, softmax in the numbers' own type."""
    groups = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    if groups > 1:
        k, v = jnp.repeat(k, groups, 1), jnp.repeat(v, groups, 1)
    scores = (q @ k.transpose(0, 1, 3, 2)) / jnp.sqrt(jnp.array(q.shape[-1], q.dtype))
    mask = causal_mask(q.shape[2], k.shape[2], causal)
    if mask is not None:
        scores = scores + jnp.where(mask, 0.0, -1e9).astype(scores.dtype)
    return (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3)


WRITTEN_OUT = [attention_repeated, attention_grouped, attention_heads_first]


class Attention:
    """Stands in for jax_models.attention while a drawn program is traced."""

    def __init__(self, style):
        self.style = style

    def __call__(self, q, k, v, causal, fused):
        if fused or self.style is None:
            return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn" if fused else "xla")
        return self.style(q, k, v, causal)


class Decoder(models.Decoder):
    """Llama's kind with its experts as `experts_as` says; or without a gate, as GPT has them."""

    def __init__(self, *args, experts_as="ragged", gated=True, **kwargs):
        super().__init__(*args, **kwargs)
        self.experts_as, self.gated = experts_as, gated

    def weights(self):
        p = super().weights()
        if not self.gated:
            for l in p["layers"]:
                del l["gate"]
                l |= {"bup": shape_of(self.inner), "bdown": shape_of(self.width)}
        return p

    def feed_forward(self, x, p):
        if not self.gated:
            return jax.nn.gelu(x @ p["up"] + p["bup"]) @ p["down"] + p["bdown"]
        if not self.experts or self.experts_as == "ragged":
            return super().feed_forward(x, p)
        b, s, w = x.shape
        flat = x.reshape(b * s, w)
        share, which = lax.top_k(jax.nn.softmax((flat @ p["router"]).astype(jnp.float32)), self.chosen)
        share = (share / jnp.sum(share, -1, keepdims=True)).astype(x.dtype)
        if self.experts_as == "dense":
            # Every expert computes every token; the shares of those not chosen are zero.
            shares = jnp.zeros((b * s, self.experts), x.dtype).at[jnp.arange(b * s)[:, None], which].set(share)
            y = jax.nn.silu(jnp.einsum("tw,ewi->eti", flat, p["gate"])) * jnp.einsum("tw,ewi->eti", flat, p["up"])
            return jnp.einsum("eti,eiw,te->tw", y, p["down"], shares).reshape(b, s, w)
        # Capacity: one-hot dispatch to a fixed number of places an expert has, as in GShard.
        places = max(4, -(-b * s * self.chosen * 5 // (4 * self.experts)))
        chosen = jax.nn.one_hot(which, self.experts, dtype=jnp.int32).reshape(-1, self.experts)
        place = (jnp.cumsum(chosen, 0) * chosen - 1).reshape(b * s, self.chosen, self.experts)
        spot = jax.nn.one_hot(place, places, dtype=x.dtype)
        combine = jnp.einsum("tkec,tk->tec", spot, share)
        rows = jnp.einsum("tec,tw->ecw", (combine > 0).astype(x.dtype), flat)
        y = jax.nn.silu(jnp.einsum("ecw,ewi->eci", rows, p["gate"])) * jnp.einsum("ecw,ewi->eci", rows, p["up"])
        return jnp.einsum("tec,ecw->tw", combine, jnp.einsum("eci,eiw->ecw", y, p["down"])).reshape(b, s, w)


def decoder_sizes(rng, widths=WIDTHS):
    width = rng.choice(widths)
    head = rng.choice([d for d in (64, 80, 96, 128, 128, 256) if width % d == 0])
    heads = width // head
    kv = heads // rng.choice([g for g in (1, 1, 2, 4, 4, 5, 7, 8, 8, 16) if heads % g == 0])
    inner = rng.choice([2.6875, 3.5, 4, 4, 8 / 3, 2.5, 5.4]) * width
    return dict(width=width, heads=heads, kv=kv, inner=int(-(-inner // 128)) * 128, vocab=rng.choice(VOCABULARIES),
                head=head)


def length(rng, most):
    """Tokens of a sequence: powers of two mostly, some in between."""
    usual = [s for s in (64, 128, 256, 512, 1024, 2048, 4096) if s <= most]
    return rng.choice(usual) if rng.random() < 0.75 else 8 * rng.randint(8, most // 8)


def batch(rng, most):
    usual = [b for b in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if b <= most]
    return rng.choice(usual) if rng.random() < 0.8 else rng.randint(1, most)


def draw_prefill(rng):
    sizes, s = decoder_sizes(rng), length(rng, 4096)
    fused = rng.random() < 0.2 and sizes["head"] <= 128
    most = 16384 if fused else max(s, int(min(16384, 2.5e9 / (2 * s * sizes["heads"]))))
    b = batch(rng, max(1, most // s))
    model = Decoder(layers=rng.choice([1, 2, 2, 3]), **sizes, gated=rng.random() < 0.85, fused=fused)
    return f"prefill_w{sizes['width']}_h{sizes['heads']}_kv{sizes['kv']}_b{b}_s{s}", model.prefill, (b, s)


def draw_decode(rng):
    sizes = decoder_sizes(rng)
    context = rng.choice([256, 512, 1024, 1024, 2048, 2048, 4096, 8192])
    cache = 2 * context * sizes["kv"] * sizes["head"] * 2
    b = batch(rng, max(1, min(256, int(6e9 // cache))))
    model = Decoder(layers=rng.choice([2, 2, 3, 4]), **sizes, gated=rng.random() < 0.85)
    return f"decode_w{sizes['width']}_h{sizes['heads']}_kv{sizes['kv']}_b{b}_c{context}", model.decode, (b, context)


def draw_experts(rng):
    experts = rng.choice([4, 8, 8, 16, 32, 60, 64, 128])
    sizes = decoder_sizes(rng, [w for w in WIDTHS if 1024 <= w <= 4096])
    sizes["inner"] = rng.choice([768, 1024, 1408, 1536, 2048, 3072] if experts > 8 else [2048, 3584, 7168, 14336])
    sizes["vocab"] = rng.choice([8192, 32000])
    written = rng.choice(["ragged", "dense", "capacity"])
    s, b = length(rng, 2048), batch(rng, 8)
    tokens = int(4e9 / (experts * sizes["inner"] * 2))
    model = Decoder(layers=1, **sizes, experts=experts, chosen=rng.choice([c for c in (1, 2, 2, 4, 8) if c < experts]),
                    experts_as=written)
    name = f"experts_{written}_e{experts}_w{sizes['width']}_i{sizes['inner']}"
    if rng.random() < 0.4:
        b = batch(rng, 128)
        return f"{name}_b{b}_c1024_decode", model.decode, (b, 1024)
    s = min(s, tokens) // 8 * 8
    b = max(1, min(b, tokens // s, 8192 // s))
    return f"{name}_b{b}_s{s}", model.prefill, (b, s)


def draw_training(rng):
    if rng.random() < 0.35:
        model, size = draw_encoder_sizes(rng, 1)
        b = batch(rng, max(1, 16384 // (size if model.vocab else (size // model.patch) ** 2)))
        return f"encoder_w{model.width}_h{model.heads}_b{b}_s{size}_train", model.train, (b, size)
    sizes = decoder_sizes(rng, [w for w in WIDTHS if w <= 4096])
    sizes["vocab"] = rng.choice([v for v in VOCABULARIES if v <= 65536])
    s = length(rng, 2048)
    fused = rng.random() < 0.3 and sizes["head"] <= 128
    b = batch(rng, max(1, min(8192, int(8e8 / (s * sizes["heads"]))) // s))
    model = Decoder(layers=rng.choice([1, 2]), **sizes, gated=rng.random() < 0.8, fused=fused)
    return f"decoder_w{sizes['width']}_h{sizes['heads']}_b{b}_s{s}_train", model.train, (b, s)


def draw_encoder_sizes(rng, layers):
    width = rng.choice([192, 384, 512, 768, 768, 1024, 1024, 1152, 1280, 1408, 1664])
    heads = width // rng.choice([d for d in (64, 64, 80, 88, 104, 128) if width % d == 0])
    if rng.random() < 0.45:
        return models.Encoder(layers, width, heads, 4 * width, vocab=rng.choice([30522, 30522, 50265])), \
            min(512, length(rng, 512))
    patch = rng.choice([14, 16, 16, 32])
    size = {14: [224, 336], 16: [224, 256, 384], 32: [224, 384]}[patch]
    return models.Encoder(layers, width, heads, 4 * width, patch=patch, classes=1000,
                          fused=width // heads == 64 and rng.random() < 0.2), rng.choice(size)


def draw_encoder(rng):
    model, size = draw_encoder_sizes(rng, rng.choice([1, 2, 3]))
    tokens = size if model.vocab else (size // model.patch) ** 2
    b = batch(rng, max(1, 65536 // tokens))
    return f"encoder_w{model.width}_h{model.heads}_b{b}_s{size}", model.infer, (b, size)


def draw_diffusion(rng):
    if rng.random() < 0.5:
        width = rng.choice([384, 768, 1024, 1152, 1536, 2048])
        head = rng.choice([d for d in (64, 72, 96, 128) if width % d == 0])
        size = rng.choice([32, 32, 64, 96])
        b = batch(rng, max(1, min(64, 32768 // (size // 2) ** 2)))
        model = models.DiffusionTransformer(rng.choice([2, 3, 4]), width, width // head)
        return f"dit_w{width}_b{b}_s{size}", model.infer, (b, size)
    width = rng.choice([96, 128, 160, 192, 224, 256, 320])
    size = rng.choice([32, 64, 64, 96])
    b = batch(rng, max(1, 16 * 64 * 64 // (size * size)))
    model = models.UNet([width, 2 * width, 4 * width][:rng.choice([2, 3])], {1})
    return f"unet_w{width}_b{b}_s{size}", model.infer, (b, size)


def conv_net(rng, most_blocks):
    kind = rng.choice(["bottleneck", "bottleneck", "bottleneck", "inverted", "next", "next"])
    if kind == "bottleneck":
        stem = rng.choice([32, 64, 64, 96, 128])
        stages = [(4 * stem, 2, 1), (8 * stem, 2, 2), (16 * stem, 2, 2), (32 * stem, 2, 2)]
    elif kind == "inverted":
        stem = rng.choice([16, 24, 32, 40, 48])
        stages = [(stem // 2, 1, 1), (stem, 2, 2), (stem * 5 // 4 // 8 * 8, 2, 2), (2 * stem, 2, 2), (5 * stem, 2, 2)]
    else:
        stem = rng.choice([64, 96, 96, 128, 192])
        stages = [(stem, 1, 2), (2 * stem, 2, 2), (4 * stem, 2, 2), (8 * stem, 2, 2)]
    return models.ConvNet(kind, stem, stages[:most_blocks]), kind, stem


def draw_conv(rng):
    model, kind, stem = conv_net(rng, 5)
    size = rng.choice([160, 192, 224, 224, 256, 288])
    b = batch(rng, 256)
    return f"{kind}_w{stem}_b{b}_s{size}", model.infer, (b, size)


def draw_conv_training(rng):
    model, kind, stem = conv_net(rng, 3)
    size = rng.choice([160, 192, 224])
    b = batch(rng, 64)
    return f"{kind}_w{stem}_b{b}_s{size}_train", model.train, (b, size)


KINDS = [(draw_prefill, 24), (draw_decode, 16), (draw_experts, 12), (draw_training, 14), (draw_encoder, 12),
         (draw_diffusion, 8), (draw_conv, 10), (draw_conv_training, 4)]


def draw(count, seed):
    rng = random.Random(seed)
    cases = {}
    while len(cases) < count:
        kind = rng.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        style = rng.choice([None, *WRITTEN_OUT])
        name, make, sizes = kind(rng)

        def case(make=make, sizes=sizes, style=style):
            function, shapes, donated = make(*sizes)

            def traced(*arguments):
                models.attention = Attention(style)
                return function(*arguments)
            return traced, shapes, donated
        cases[f"x{seed}_{len(cases):03d}_{name}"] = case
    return cases


