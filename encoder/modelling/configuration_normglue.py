"""Configuration of a NormGLUE encoder: RoBERTa's keys and the switches of its LayerNorm arrangement."""

from transformers import PretrainedConfig


class NormGlueConfig(PretrainedConfig):
    """The defaults are Post-LN RoBERTa. Every switch is independent of the others.

    pre_norm, post_norm: norm at a sublayer's input, after its residual add.
    mid_norm, out_norm ("none", "attn", "ffn", "both"): norm before a sublayer's output matrix, on its output.
    head_scale ("none", "pre_proj", "post_proj"): a learned scale a head.
    resid_gain ("none", "attn", "ffn", "both"): a learned gain a channel on the skip; resid_alpha: a constant.
    bottom_skip: a skip from a layer's input to before its last norm.
    dual_stream, dual_out: scale of the second residual stream (0 = off), weight of the first in the output.
    embed_norm, final_norm: norm after the embeddings, after the last layer.
    norm ("ln", "rms", "crms", "bn", "pn", "un", "none"): kind of the pre, post and final norms.
    norm_aux ("ln", "rms"): kind of all other norms.
    norm_affine ("both", "gain", "none"): what the pre, post and final norms learn.
    stream_center ("none", "writers", "after_dropout"): who keeps the stream's mean at 0; the embeddings are centred then.
    norm_stat: settings of bn, pn and un; norm_penalty: weights of their penalty. Only "groups" and "window" count here.
    """

    model_type = "normglue"

    def __init__(
        self,
        vocab_size=50265,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        max_position_embeddings=514,
        type_vocab_size=1,
        hidden_act="gelu",
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        classifier_dropout=None,
        initializer_range=0.02,
        layer_norm_eps=1e-5,
        final_eps=None,
        pre_norm=0,
        post_norm=1,
        mid_norm="none",
        out_norm="none",
        head_scale="none",
        resid_gain="none",
        resid_alpha=1.0,
        bottom_skip=0,
        dual_stream=0.0,
        dual_out=1.0,
        embed_norm=1,
        final_norm=0,
        norm="ln",
        norm_aux="ln",
        norm_affine="both",
        norm_stat=None,
        norm_penalty=None,
        stream_center="none",
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        **kwargs,
    ):
        super().__init__(
            pad_token_id=pad_token_id, bos_token_id=bos_token_id, eos_token_id=eos_token_id, **kwargs
        )
        self.pad_token_id = pad_token_id
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.intermediate_size = intermediate_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.hidden_act = hidden_act
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.classifier_dropout = classifier_dropout
        self.initializer_range = initializer_range
        self.layer_norm_eps = layer_norm_eps
        self.final_eps = layer_norm_eps if final_eps is None else final_eps
        self.pre_norm = pre_norm
        self.post_norm = post_norm
        self.mid_norm = mid_norm
        self.out_norm = out_norm
        self.head_scale = head_scale
        self.resid_gain = resid_gain
        self.resid_alpha = resid_alpha
        self.bottom_skip = bottom_skip
        self.dual_stream = dual_stream
        self.dual_out = dual_out
        self.embed_norm = embed_norm
        self.final_norm = final_norm
        self.norm = norm
        self.norm_aux = norm_aux
        self.norm_affine = norm_affine
        self.norm_stat = norm_stat or {}
        self.norm_penalty = norm_penalty or {}
        self.stream_center = stream_center
