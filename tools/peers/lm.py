"""lm.py - shared code of the language-model comparisons: reads the tokens, runs `kvreel nll`, writes the table."""

import argparse
import glob
import json
import os

import common
import numpy as np


class Question:
    """The command line's model and tokens, with kvreel's mean NLL of the tokens in `ours` (nats per token)."""

    def __init__(self, doc, within):
        parser = argparse.ArgumentParser(description=doc.split("\n")[0])
        texts = common.ROOT / "configs/suites/texts-debian.safetensors"
        common.add_arguments(parser, 3)
        parser.add_argument("--model", default=str(common.ROOT / "models/smollm2-135m"), help="folder of the model (models/smollm2-135m)")
        parser.add_argument("--ids", default=str(texts), help="safetensors file of token ids (texts-debian)")
        parser.add_argument("--text", default="gpl-3", help="id of the text, a tensor of the file --ids (gpl-3)")
        parser.add_argument("--tokens", type=int, default=512, help="number of tokens from the start of the text (512)")
        parser.add_argument(
            "--within", type=float, default=within, help=f"largest allowed difference of the NLLs in nats ({within:g})"
        )
        self.args = args = parser.parse_args()
        self.threads = max(common.thread_counts(args))
        found = glob.glob(os.path.join(args.model, "*.gguf"))
        tensors = common.read_safetensors(args.ids)
        if len(found) != 1:
            common.fail(f"{args.model}: {len(found)} GGUF files, need one (make model-smollm2)")
        if args.text not in tensors or tensors[args.text][0] != "I32":
            common.fail(f"{args.ids}: the file has no I32 tensor '{args.text}'")
        self.weights = found[0]
        self.ids = np.frombuffer(tensors[args.text][2], dtype="<i4")[: args.tokens]
        words = ["nll", args.model, args.ids, "--text", args.text, "--tokens", str(args.tokens), "--json"]
        self.ours = json.loads(common.kvreel(args, words, self.threads))["nll"]

    def answer(self, peer, theirs, others=()):
        """Writes the table of NLLs; exits with an error if `theirs` differs from kvreel's by more than --within.

        peer: the peer's version for the table's head. theirs, others: (name, NLL in nats per token)."""
        args = self.args
        rows = [{"what": "kvreel", "NLL": f"{self.ours:.6f}", "less kvreel": ""}]
        for name, nll in [theirs, *others]:
            rows.append({"what": name, "NLL": f"{nll:.6f}", "less kvreel": f"{nll - self.ours:+.2e}"})
        head = common.facts(args, [peer])[:-1]
        title = f"NLL of tokens 1 .. {len(self.ids) - 1} of {args.text}, nats per token"
        common.write_table(title, head, ["what", "NLL", "less kvreel"], rows)
        common.write_json(args, "nll", head, rows)
        if not abs(theirs[1] - self.ours) <= args.within:
            common.fail(
                f"NLL {theirs[1]:.6f} of {theirs[0]}, {self.ours:.6f} of kvreel: they differ by more than {args.within:g}"
            )


def nll(logits, ids):
    """Returns the mean of -log p of tokens 1 .. T - 1, each given all earlier tokens, in nats, computed in float64.

    logits: [T - 1 or T, V]; ids: [T]."""
    x = np.asarray(logits[: len(ids) - 1], dtype=np.float64)
    top = x.max(axis=1)
    total = np.log(np.exp(x - top[:, None]).sum(axis=1)) + top
    return float((total - x[np.arange(len(ids) - 1), ids[1:]]).mean())
