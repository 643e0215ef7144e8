/* preset - the named arrangements: bundles of switches over Post-LN.
 *
 * To add one, add a row. Options, --help and the tests walk this table.
 *
 * A row is (name, switches, paper, summary). Switches are option text, so that what a
 * name means can be read, and set one by one on the command line for the same model. */
#include "encoder/config.h"

/* fairseq's --encoder-normalize-before and roberta-prelayernorm both keep the norm after
 * the embeddings: without it the stream starts at 0.03 a channel, and training stays long
 * at the unigram distribution. */
#define PRE_LN "pre_norm=1 post_norm=0 final_norm=1"

const struct preset config_presets[] = {
    {"postln", "", "Vaswani et al., arXiv:1706.03762",
     "norm after each residual add, as BERT and RoBERTa"},
    {"preln", PRE_LN, "Xiong et al., arXiv:2002.04745",
     "norm at each sublayer's input and after the last layer"},
    {"normformer", PRE_LN " out_norm=attn mid_norm=ffn head_scale=pre_proj",
     "Shleifer et al., arXiv:2110.09456",
     "preln + norm after attention and inside the feed-forward + a scale a head"},
    {"normformer_fairseq", PRE_LN " out_norm=attn mid_norm=ffn head_scale=post_proj",
     "Shleifer et al., arXiv:2110.09456 (published code)",
     "normformer with the head scales after the output projection"},
    {"normformer_res",
     PRE_LN " out_norm=attn mid_norm=ffn head_scale=pre_proj resid_gain=ffn",
     "Shleifer et al., arXiv:2110.09456, section 2",
     "normformer + a learned gain on the feed-forward's skip"},
    {"b2t", "bottom_skip=1 init_gain=depth init_targets=all",
     "Takase et al., arXiv:2206.00330",
     "postln + a skip from each layer's bottom to its last norm"},
    {"residual_dual", "dual_stream=1 final_norm=1 final_eps=1e-7",
     "Xie et al., arXiv:2304.14802",
     "postln + a second stream that is only normed at the end"},
    {"deepnorm", "resid_alpha=auto init_gain=deepnorm init=xavier_normal",
     "Wang et al., arXiv:2203.00555",
     "postln with a scaled skip and smaller initial weights"},
    {"magneto", PRE_LN " mid_norm=both init_gain=subln init=xavier_normal",
     "Wang et al., arXiv:2210.06423",
     "preln + norms before both output matrices, larger initial weights"},
    {"rms", PRE_LN " norm=rms norm_affine=gain", "Zhang and Sennrich, arXiv:1910.07467",
     "preln with RMSNorm: no centring, no bias"},
    {"prerms", PRE_LN " embed_norm=0 norm=rms norm_affine=gain stream_center=auto",
     "Jiang et al., arXiv:2305.14858",
     "preln in fewer steps: RMSNorm on a stream whose mean is kept at 0"},
    {"precrms", PRE_LN " embed_norm=0 norm=crms norm_affine=none stream_center=auto",
     "Jiang et al., arXiv:2305.14858",
     "prerms without the stream's last channel; needs --hidden-dropout-prob 0"},
    {"bn", PRE_LN " norm=bn", "Ioffe and Szegedy, arXiv:1502.03167",
     "preln with BatchNorm over real tokens"},
    /* Their 0.1 and 0.01 (pre-norm) of a loss summed over about 4,000 tokens. */
    {"rbn", PRE_LN " norm=bn norm_penalty=mean=2.5e-5,var=2.5e-6",
     "Wang et al., arXiv:2210.05153",
     "bn + a penalty on batch statistics far from the running ones"},
    {"pn", PRE_LN " norm=pn", "Shen et al., arXiv:2003.07845",
     "preln with PowerNorm: quadratic means over steps, not centred"},
    {"un", PRE_LN " norm=un", "Yang et al., arXiv:2208.01313",
     "preln with Unified Normalization: quadratic means over four steps"},
    {"peri", PRE_LN " out_norm=both", "Kim et al., arXiv:2502.02732",
     "preln + norms on the output of both branches"},
    {0},
};
