"""NormGLUE encoders for transformers: one sublayer whose switches make every LayerNorm arrangement.

With x the stream, for each of the sublayers attention and feed-forward:

    u = pre_norm ? N(x) : x
    c = core(u); c *= head_scale (pre_proj); c = mid_norm ? N(c) : c
    z = W c + b; z *= head_scale (post_proj); z = out_norm ? N(z) : z; z = dropout(z)
    v = resid_alpha * resid_gain * x + z (+ the layer's input with bottom_skip, last sublayer only)
    x = post_norm ? N(v) : v
    s += dual_stream * z

With stream_center x is of mean zero: centred after the embeddings, and z after its dropout unless the output matrices
are centred themselves. With norm "crms" the last channel of x, minus the sum of the others, is left out.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput

from .configuration_normglue import NormGlueConfig


# Buffers of the norms with statistics over a batch: shape ("C" channels, "W" window) and start.
BUFFERS = {
    "bn": {"running_mean": ("C", 0.0), "running_var": ("C", 1.0)},
    "pn": {"running_phi": ("C", 1.0), "ema_gz": ("C", 0.0), "running_steps": ("1", 0.0)},
    "un": {"running_square": ("C", 1.0), "ema_gz": ("C", 0.0), "running_window": ("WC", 0.0),
           "ema_window": ("WC", 0.0), "running_steps": ("1", 0.0), "running_skips": ("1", 0.0)},
}


class NormGlueNorm(nn.Module):
    """A norm over the last dimension, with gain and bias, gain, or nothing learned.

    LayerNorm ("ln"), RMSNorm ("rms", and "crms" with a channel implied), BatchNorm ("bn"), PowerNorm ("pn"), Unified
    Normalization ("un"). The last three divide by their running statistics, in training too: those move in normglue only.
    """

    def __init__(self, kind, width, eps, affine="both", stat=None):
        super().__init__()
        self.kind, self.width, self.eps, self.stat = kind, width, eps, stat or {}
        self.weight = nn.Parameter(torch.ones(width)) if affine != "none" else None
        self.bias = nn.Parameter(torch.zeros(width)) if affine == "both" else None
        sizes = {"C": width, "W": int(self.stat.get("window", 4)), "1": 1}
        for name, (shape, start) in BUFFERS.get(kind, {}).items():
            self.register_buffer(name, torch.full([sizes[letter] for letter in shape], start))

    def scale_tokens(self, x, groups):
        groups = x.view(*x.shape[:-1], groups, -1)
        return (groups * torch.rsqrt(groups.pow(2).mean(-1, keepdim=True) + self.eps)).view(x.shape)

    def normalise(self, x):
        if self.kind == "ln":
            return F.layer_norm(x, (self.width,), eps=self.eps)
        if self.kind == "rms":
            return self.scale_tokens(x, 1)
        if self.kind == "crms":
            squares = x.pow(2).sum(-1, keepdim=True) + x.sum(-1, keepdim=True).pow(2)
            return x * torch.rsqrt(squares / (self.width + 1) + self.eps)
        if self.kind == "bn":
            return (x - self.running_mean) * torch.rsqrt(self.running_var.clamp(min=self.eps))
        if self.kind == "un":
            return x * torch.rsqrt(self.running_square + self.eps)
        if self.kind == "pn":
            groups = int(self.stat["groups"])
            x = self.scale_tokens(x, groups) if groups else x
            return x * torch.rsqrt(self.running_phi + self.eps)
        raise NotImplementedError(f"norm={self.kind}: modeling_normglue.py has no such norm; write it in NormGlueNorm")

    def forward(self, x):
        x = self.normalise(x)
        x = x if self.weight is None else x * self.weight
        return x if self.bias is None else x + self.bias


def stream_size(config):
    return config.hidden_size - (config.norm == "crms")


def center(x, size):
    """x of mean zero, its first `size` channels."""
    return (x - x.mean(-1, keepdim=True))[..., :size]


def main_norm(config, wanted, eps=None):
    """A norm at a pre, post or final site, or None."""
    if not wanted or config.norm == "none":
        return None
    eps = config.layer_norm_eps if eps is None else eps
    return NormGlueNorm(config.norm, stream_size(config), eps, config.norm_affine, config.norm_stat)


def aux_norm(config, wanted, width=None):
    """A norm at any other site, or None."""
    return NormGlueNorm(config.norm_aux, width or config.hidden_size, config.layer_norm_eps) if wanted else None


def apply(module, x):
    return x if module is None else module(x)


class NormGlueEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.hidden_size
        self.pad = config.pad_token_id
        self.stream = stream_size(config)
        self.centers = config.stream_center != "none"
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=self.pad)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width, padding_idx=self.pad)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = aux_norm(config, config.embed_norm)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids, token_type_ids, inputs_embeds=None):
        if inputs_embeds is None:
            inputs_embeds = self.word_embeddings(input_ids)
            is_real = input_ids.ne(self.pad).int()
            positions = torch.cumsum(is_real, dim=1) * is_real + self.pad
        else:
            length = inputs_embeds.shape[1]
            positions = torch.arange(self.pad + 1, self.pad + 1 + length, device=inputs_embeds.device)[None]
        if token_type_ids is None:
            token_type_ids = torch.zeros(inputs_embeds.shape[:2], dtype=torch.long, device=inputs_embeds.device)
        x = inputs_embeds + self.position_embeddings(positions.long()) + self.token_type_embeddings(token_type_ids)
        x = self.dropout(apply(self.LayerNorm, x))
        return center(x, self.stream) if self.centers else x


class NormGlueSelfAttention(nn.Module):
    """All heads up to, not including, the output projection."""

    def __init__(self, config):
        super().__init__()
        stream, width = stream_size(config), config.hidden_size
        self.heads = config.num_attention_heads
        self.place = config.head_scale
        self.query = nn.Linear(stream, width)
        self.key = nn.Linear(stream, width)
        self.value = nn.Linear(stream, width)
        self.head_scale = nn.Parameter(torch.ones(self.heads)) if self.place != "none" else None
        self.inner_attn_ln = aux_norm(config, config.mid_norm in ("attn", "both"))
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def scale(self, x, place):
        if self.place != place:
            return x
        return x * self.head_scale.repeat_interleave(x.shape[-1] // self.heads)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        weights = torch.softmax(scores + mask, dim=-1)
        mixed = (self.dropout(weights) @ value).transpose(1, 2).flatten(2)
        return apply(self.inner_attn_ln, self.scale(mixed, "pre_proj")), weights


class NormGlueOutput(nn.Module):
    """From a sublayer's core to the residual add and the norm after it."""

    def __init__(self, config, which, width):
        super().__init__()
        self.alpha = config.resid_alpha
        stream = stream_size(config)
        self.centers = config.stream_center == "after_dropout"
        self.dense = nn.Linear(width, stream)
        gain = config.resid_gain in (which, "both")
        self.resid_scale = nn.Parameter(torch.ones(stream)) if gain else None
        self.LayerNorm = main_norm(config, config.post_norm)
        self.out_name = "attn_ln" if which == "attn" else "out_layernorm"
        setattr(self, self.out_name, aux_norm(config, config.out_norm in (which, "both")))
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, core, x, rescale=None, bottom=None):
        z = self.dense(core)
        z = z if rescale is None else rescale(z)
        z = self.dropout(apply(getattr(self, self.out_name), z))
        z = center(z, z.shape[-1]) if self.centers else z
        skip = x if self.resid_scale is None else x * self.resid_scale
        v = self.alpha * skip + z
        v = v if bottom is None else v + bottom
        return apply(self.LayerNorm, v), z


class NormGlueAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.LayerNorm = main_norm(config, config.pre_norm)
        self.self = NormGlueSelfAttention(config)
        self.output = NormGlueOutput(config, "attn", config.hidden_size)

    def forward(self, x, mask):
        core, weights = self.self(apply(self.LayerNorm, x), mask)
        x, z = self.output(core, x, rescale=lambda y: self.self.scale(y, "post_proj"))
        return x, z, weights


class NormGlueIntermediate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.LayerNorm = main_norm(config, config.pre_norm)
        self.dense = nn.Linear(stream_size(config), config.intermediate_size)
        self.ffn_layernorm = aux_norm(config, config.mid_norm in ("ffn", "both"), config.intermediate_size)

    def forward(self, x):
        return apply(self.ffn_layernorm, F.gelu(self.dense(apply(self.LayerNorm, x))))


class NormGlueLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.bottom_skip, self.dual_stream = config.bottom_skip, config.dual_stream
        self.attention = NormGlueAttention(config)
        self.intermediate = NormGlueIntermediate(config)
        self.output = NormGlueOutput(config, "ffn", config.intermediate_size)

    def forward(self, x, stream, mask):
        bottom = x if self.bottom_skip else None
        x, z_attention, weights = self.attention(x, mask)
        x, z = self.output(self.intermediate(x), x, bottom=bottom)
        if stream is not None:
            stream = stream + self.dual_stream * (z_attention + z)
        return x, stream, weights


class NormGlueEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer = nn.ModuleList([NormGlueLayer(config) for _ in range(config.num_hidden_layers)])


class NormGluePreTrainedModel(PreTrainedModel):
    config_class = NormGlueConfig
    base_model_prefix = "roberta"

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=self.config.initializer_range)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, NormGlueNorm):
            if module.weight is not None:
                nn.init.ones_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    @staticmethod
    def wants(value, default):
        return default if value is None else value


class NormGlueModel(NormGluePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.embeddings = NormGlueEmbeddings(config)
        self.encoder = NormGlueEncoder(config)
        self.LayerNorm = main_norm(config, config.final_norm, config.final_eps)
        self.post_init()

    def get_input_embeddings(self):
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value):
        self.embeddings.word_embeddings = value

    def finish(self, x, stream):
        if stream is None:
            return apply(self.LayerNorm, x)
        return self.config.dual_out * x + self.LayerNorm(stream)

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None,
                output_attentions=None, output_hidden_states=None, return_dict=None, **kwargs):
        x = self.embeddings(input_ids, token_type_ids, inputs_embeds)
        if attention_mask is None:
            attention_mask = torch.ones(x.shape[:2], device=x.device)
        mask = torch.zeros(attention_mask.shape, dtype=x.dtype, device=x.device)
        mask = mask.masked_fill(attention_mask == 0, torch.finfo(x.dtype).min)[:, None, None, :]
        stream = self.config.dual_stream * x if self.config.dual_stream > 0 else None
        states, attentions = [x], []
        for layer in self.encoder.layer:
            x, stream, weights = layer(x, stream, mask)
            states.append(x)
            attentions.append(weights)
        x = self.finish(x, stream)
        states[-1] = x
        keep_states = self.wants(output_hidden_states, self.config.output_hidden_states)
        keep_attentions = self.wants(output_attentions, self.config.output_attentions)
        output = BaseModelOutput(x, tuple(states) if keep_states else None,
                                 tuple(attentions) if keep_attentions else None)
        return output if self.wants(return_dict, True) else output.to_tuple()


class NormGlueLMHead(nn.Module):
    """Its decoder is the word table, which is stored once."""

    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(stream_size(config), config.hidden_size)
        self.layer_norm = aux_norm(config, True)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, x, table):
        return F.linear(self.layer_norm(F.gelu(self.dense(x))), table, self.bias)


class NormGlueForMaskedLM(NormGluePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.roberta = NormGlueModel(config)
        self.lm_head = NormGlueLMHead(config)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, return_dict=None,
                **kwargs):
        hidden = self.roberta(input_ids, attention_mask, token_type_ids, return_dict=True, **kwargs)
        logits = self.lm_head(hidden.last_hidden_state, self.roberta.embeddings.word_embeddings.weight)
        loss = None if labels is None else F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))
        output = MaskedLMOutput(loss, logits, hidden.hidden_states, hidden.attentions)
        return output if self.wants(return_dict, True) else output.to_tuple()


class NormGlueClassificationHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        rate = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dense = nn.Linear(stream_size(config), config.hidden_size)
        self.dropout = nn.Dropout(rate)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, x):
        x = torch.tanh(self.dense(self.dropout(x[:, 0])))
        return self.out_proj(self.dropout(x))


class NormGlueForSequenceClassification(NormGluePreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.roberta = NormGlueModel(config)
        self.classifier = NormGlueClassificationHead(config)
        self.post_init()

    def loss(self, logits, labels):
        if self.config.num_labels == 1:
            return F.mse_loss(logits.view(-1), labels.view(-1).to(logits.dtype))
        return F.cross_entropy(logits, labels.view(-1))

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, labels=None, return_dict=None,
                **kwargs):
        hidden = self.roberta(input_ids, attention_mask, token_type_ids, return_dict=True, **kwargs)
        logits = self.classifier(hidden.last_hidden_state)
        loss = None if labels is None else self.loss(logits, labels)
        output = SequenceClassifierOutput(loss, logits, hidden.hidden_states, hidden.attentions)
        return output if self.wants(return_dict, True) else output.to_tuple()
