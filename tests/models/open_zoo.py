#!/usr/bin/env python3
"""Exports architectures of transformers, torchvision and others with open sizes, each by both exporters, for open_sizes.py.

    open_zoo.py FOLDER [NAME]        needs torch, onnxscript, transformers and torchvision

Small configurations with random weights; nothing is downloaded. See open_exports.py. A decoder's mask covers the past too: its length `total` is
the sum of `past` and `seq`.
"""
import math

import torch
import torchvision
import transformers as hf
from open_exports import MODELS, conv, images, main, model, words
from torch import nn
from torch.nn import functional as F
from transformers import DynamicCache, EncoderDecoderCache

MODELS.clear()
SEQ, SRC, IMAGES, BATCH = ({0: "batch", 1: "seq"}, {0: "batch", 1: "src"}, {0: "batch", 2: "height", 3: "width"}, {0: "batch"})
IDS, MASK = (SEQ, words(2, 9)), (SEQ, torch.ones(2, 9, dtype=torch.int64))
IMAGE = (IMAGES, images(2, 3, 64, 96))
SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
TEXT = dict(SMALL, vocab_size=100)


class Run(nn.Module):
    """`run` of a network; its weights are large enough for attention to differ from a mean."""
    def __init__(self, net, run):
        super().__init__()
        self.net, self._run = net, run
        for p in net.parameters():
            if p.dim() == 2 and 1e-4 < p.std() < 0.05:
                p.data *= p.shape[1] ** -0.5 / p.std()

    def forward(self, *x):
        return self._run(self.net, *x)


def hidden(net, names=("input_ids", "attention_mask")):
    return Run(net, lambda m, *x: m(**dict(zip(names, x)))[0])


@model(IDS, MASK, (SEQ, words(2, 9)))
def bert():
    return hidden(hf.BertModel(hf.BertConfig(**TEXT, type_vocab_size=100)), ("input_ids", "attention_mask", "token_type_ids"))


@model(IDS, MASK)
def distilbert():
    return hidden(hf.DistilBertForSequenceClassification(hf.DistilBertConfig(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=100)))


@model(IDS, MASK)
def deberta():
    return hidden(hf.DebertaV2Model(hf.DebertaV2Config(
        **TEXT, relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"], share_att_key=True, max_position_embeddings=64)))


@model(IDS, MASK)
def modernbert():
    return hidden(hf.ModernBertModel(hf.ModernBertConfig(**TEXT, local_attention=8, global_attn_every_n_layers=2, pad_token_id=0)))


@model(IDS, MASK)
def sentence():
    def pooled(m, ids, mask):
        x, w = m(input_ids=ids, attention_mask=mask)[0], mask[..., None].float()
        return F.normalize((x * w).sum(1) / w.sum(1).clamp(min=1e-9))
    return Run(hf.BertModel(hf.BertConfig(**TEXT)), pooled)


def flat(cache):
    return [t for layer in cache.layers for t in (layer.keys, layer.values)]


def past(heads, axes=None, length=5):
    return [(axes or {0: "batch", 2: "past"}, images(2, heads, length, 16)) for _ in range(2)]


def decoder(net):
    """Words, a mask, and two layers' keys and values of the words before."""
    def run(m, ids, mask, *p):
        out = m(input_ids=ids, attention_mask=mask, past_key_values=DynamicCache([(p[0], p[1]), (p[2], p[3])]), use_cache=True)
        return out.logits, *flat(out.past_key_values)
    return Run(net, run)


TOTAL = ({0: "batch", 1: "total"}, torch.ones(2, 14, dtype=torch.int64))
FEW = dict(TEXT, num_key_value_heads=2, max_position_embeddings=128)


@model(IDS, TOTAL, *past(4), *past(4))
def gpt2():
    return decoder(hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, n_positions=128)))


@model(IDS, TOTAL, *past(2), *past(2))
def llama():
    return decoder(hf.LlamaForCausalLM(hf.LlamaConfig(**FEW)))


@model(IDS, TOTAL, *past(2), *past(2))
def qwen3():
    return decoder(hf.Qwen3ForCausalLM(hf.Qwen3Config(**FEW, head_dim=16)))


@model(IDS, TOTAL, *past(4), *past(4))
def opt():
    """Its places are counted in the mask, so that `total - past` must be `seq`."""
    return decoder(hf.OPTForCausalLM(hf.OPTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=128, vocab_size=100, max_position_embeddings=128, word_embed_proj_dim=64)))


SIDES = dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
             decoder_ffn_dim=128, vocab_size=100)


@model((SRC, words(2, 7)), (SRC, torch.ones(2, 7, dtype=torch.int64)), IDS)
def bart():
    return Run(hf.BartForConditionalGeneration(hf.BartConfig(**SIDES, max_position_embeddings=128)),
               lambda m, ids, mask, made: m(input_ids=ids, attention_mask=mask, decoder_input_ids=made, use_cache=False).logits)


@model(IDS, *(past(4) + past(4, {0: "batch", 2: "src"}, 7)) * 2)
def whisper_decoder():
    def run(m, ids, *p):
        cache = EncoderDecoderCache(DynamicCache([(p[0], p[1]), (p[4], p[5])]), DynamicCache([(p[2], p[3]), (p[6], p[7])]))
        out = m(decoder_input_ids=ids, encoder_outputs=(torch.zeros(1, 1, 64),), past_key_values=cache, use_cache=True)
        return out.logits, *flat(out.past_key_values.self_attention_cache)
    return Run(hf.WhisperForConditionalGeneration(hf.WhisperConfig(
        **SIDES, num_mel_bins=16, max_source_positions=50, max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1)), run)


@model(({0: "batch", 1: "samples"}, images(2, 800)))
def wav2vec2():
    return hidden(hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(
        **TEXT, conv_dim=[16] * 4, conv_stride=[5, 2, 2, 2], conv_kernel=[10, 3, 3, 2], num_feat_extract_layers=4, num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4)), ("input_values",))


@model(IMAGE)
def vit_images():
    return Run(hf.ViTModel(hf.ViTConfig(**SMALL, image_size=32, patch_size=8)), lambda m, x: m(x, interpolate_pos_encoding=True)[0])


@model(IMAGE)
def swin_v2():
    return Run(hf.Swinv2Model(hf.Swinv2Config(image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)),
               lambda m, x: m(x, interpolate_pos_encoding=True)[0])


@model(IMAGE)
def segformer():
    return hidden(hf.SegformerForSemanticSegmentation(hf.SegformerConfig(
        hidden_sizes=[16, 32, 40, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4], decoder_hidden_size=32, num_labels=5)), ("pixel_values",))


@model(IMAGE)
def densenet():
    """Each layer makes 8 channels of blocks of 16."""
    return torchvision.models.DenseNet(8, (2, 2, 2), 16, num_classes=10)


@model(IMAGE)
def squeezenet():
    return torchvision.models.squeezenet1_1(num_classes=10)


@model(IMAGE)
def center_crop():
    def cropped(m, x):
        y, z = (x.shape[2] - 32) // 2, (x.shape[3] - 32) // 2
        return m(x[:, :, y:y + 32, z:z + 32])
    return Run(nn.Conv2d(3, 8, 3), cropped)


@model(({0: "batch", 1: "height", 2: "width"}, images(2, 37, 51, 3)))
def channels_last():
    return Run(conv(3, 16), lambda m, x: m(F.interpolate(x.permute(0, 3, 1, 2), size=(32, 32), mode="bilinear")).mean((2, 3)))


@model(({0: "n"}, images(9, 16)), ({0: "m"}, images(7, 16)))
def retrieval():
    return Run(nn.Linear(16, 16), lambda m, a, b: (F.normalize(m(a)) @ F.normalize(m(b)).t()).topk(4))


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        n, k = torch.arange(64.), torch.arange(33.)[:, None]
        turns = k * n * 2 * math.pi / 64
        self.register_buffer("waves", torch.cat([turns.cos(), turns.sin()])[:, None] * torch.hann_window(64))
        self.mel = nn.Linear(33, 12)

    def forward(self, x):
        real, imaginary = F.conv1d(F.pad(x[:, None], (32, 32), mode="reflect"), self.waves, stride=16).chunk(2, 1)
        y = (self.mel((real ** 2 + imaginary ** 2).transpose(1, 2)).abs() + 1e-5).log()
        return y - y.mean(1, keepdim=True)


@model(({0: "batch", 1: "samples"}, images(2, 400)))
def spectrum():
    return Spectrum()


if __name__ == "__main__":
    main()
