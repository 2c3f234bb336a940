"""puPL's iterations on a million rows, compared with k-means of scikit-learn and Faiss from the same two centres.

    python studies/pupl.py --threads 1 2

The rows are six clusters in ten of 128 dimensions with noise in all, scaled to length 1; classes take turns. The others
know nothing of labels: theirs are plain two-means. Each line takes as many iterations as it needs, at most ``--most``;
Faiss, which does not stop by itself, takes as many as puPL did with subsampling off.
"""

import argparse
import json
import time
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits
from torch import Generator, Tensor

from pucl.pseudo_labels.pupl import lloyd, seed_centres


def rows(n: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    g = Generator().manual_seed(seed)
    cluster = torch.randint(6, (n,), generator=g)
    inner = torch.randn(6, 10, generator=g)[cluster] + 0.8 * torch.randn(n, 10, generator=g)
    z = inner @ torch.randn(10, dim, generator=g) + 0.3 * torch.randn(n, dim, generator=g)
    return F.normalize(z, dim=1), (cluster % 2 == 0) & (torch.rand(n, generator=g) < 0.02)


def timed(run: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    outcome = run()
    return time.perf_counter() - began, outcome


def measure(z: Tensor, labelled: Tensor, threads: int, max_iter: int) -> list[dict[str, Any]]:
    torch.set_num_threads(threads)
    start = seed_centres(z, labelled, Generator().manual_seed(0))
    seconds, ours = timed(lambda: lloyd(z, labelled, start, max_iter=max_iter))
    lines = [{"what": "pucl", "seconds": seconds, "iterations": ours.iterations}]
    cluster = import_module("sklearn.cluster")
    options: dict[str, Any] = {"init": start.numpy(), "n_init": 1, "max_iter": max_iter, "tol": 0, "algorithm": "lloyd"}
    with threadpool_limits(threads):
        seconds, theirs = timed(lambda: cluster.KMeans(2, **options).fit(z.numpy()))
    lines.append({"what": "scikit-learn", "seconds": seconds, "iterations": int(theirs.n_iter_)})
    try:
        faiss = import_module("faiss")
    except ImportError:
        return lines
    faiss.omp_set_num_threads(threads)
    limits = {"max_points_per_centroid": len(z), "min_points_per_centroid": 1}
    machine = faiss.Kmeans(z.shape[1], 2, niter=ours.iterations, **limits)
    seconds, _ = timed(lambda: machine.train(z.numpy(), init_centroids=start.numpy()))
    lines.append({"what": "faiss", "seconds": seconds, "iterations": ours.iterations})
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    z, labelled = rows(options.rows, options.dim, 0)
    for threads in options.threads:
        for _ in range(options.repeats):  # the last round counts: the first warms up
            lines = measure(z, labelled, threads, options.most)
        for line in lines:
            per = 1e3 * line["seconds"] / line["iterations"]
            ratio = line["seconds"] / lines[0]["seconds"]
            print(
                json.dumps(
                    {"threads": threads, **line, "ms_per_iteration": round(per, 1), "times_ours": round(ratio, 2)}
                )
            )


if __name__ == "__main__":
    main()
