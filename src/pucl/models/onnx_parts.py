"""What torch cannot write to ONNX by itself: text as codes of categories, and trees as the operator made for them."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pucl.data.own.rules import CategoryRule
from pucl.heads.flat_trees import LEAF, FlatTrees
from pucl.heads.trees import NODES, ONNX_DOMAIN

ML = "ai.onnx.ml"  # where ONNX keeps both
TEXT_VERSION, TREES_VERSION = 3, 5  # of the operators


def use_ml(onnx: Any, proto: Any, rules: tuple[CategoryRule, ...]) -> None:
    """Make the graph take text for these categories, and put the operator for trees where trees are."""
    has_trees = any(node.domain == ONNX_DOMAIN for node in proto.graph.node)
    if rules:
        _take_text(onnx, proto.graph, rules)
    if has_trees:
        _walk_trees(onnx, proto.graph)
    if rules or has_trees:
        kept = [one for one in proto.opset_import if one.domain not in (ONNX_DOMAIN, ML)]
        del proto.opset_import[:]
        version = TREES_VERSION if has_trees else TEXT_VERSION
        proto.opset_import.extend([*kept, onnx.helper.make_opsetid(ML, version)])


def _take_text(onnx: Any, graph: Any, rules: tuple[CategoryRule, ...]) -> None:
    """Put text in the place of the input ``codes``: every column of ``categories`` goes through its own dictionary.

    A value that training never saw has the code −1; empty text is missing (NaN), unless it is a value of the column.
    """
    helper = onnx.helper
    (codes,) = (value for value in graph.input if value.name == "codes")
    batch = codes.type.tensor_type.shape.dim[0].dim_param
    text = helper.make_tensor_value_info("categories", onnx.TensorProto.STRING, [batch, len(rules)])
    nodes, made = [], []
    for j, rule in enumerate(rules):
        known = {"": math.nan} | {value: float(code) for code, value in enumerate((*rule.values, *rule.rare))}
        place, column = f"categories_place_{j}", f"categories_{j}"
        graph.initializer.append(onnx.numpy_helper.from_array(np.array([j]), place))
        nodes.append(helper.make_node("Gather", ["categories", place], [column], axis=1))
        nodes.append(
            helper.make_node(
                "LabelEncoder", [column], [f"codes_{j}"], domain=ML, keys_strings=list(known),
                values_floats=list(known.values()), default_float=-1.0,
            )
        )  # fmt: skip
        made.append(f"codes_{j}")
    nodes.append(helper.make_node("Concat", made, ["codes"], axis=1))
    others = list(graph.node)
    graph.input.remove(codes)
    graph.input.append(text)
    del graph.node[:]
    graph.node.extend([*nodes, *others])


def _walk_trees(onnx: Any, graph: Any) -> None:
    """Replace what `Trees` left in the graph, with its tensors as inputs, by the operator that has them inside."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    nodes = list(graph.node)
    for at, node in enumerate(nodes):
        if node.domain == ONNX_DOMAIN:
            rows, *names = node.input
            arrays = [torch.from_numpy(onnx.numpy_helper.to_array(tensors[name]).copy()) for name in names]
            flat = FlatTrees(**dict(zip(NODES, arrays, strict=True)))
            nodes[at] = onnx.helper.make_node(
                "TreeEnsemble", [rows], list(node.output), name=node.name, domain=ML, **_attributes(onnx, flat)
            )
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _attributes(onnx: Any, trees: FlatTrees) -> dict[str, Any]:
    """The trees as the operator takes them: inner nodes and leaves apart, each numbered from 0.

    A tree that is one leaf is an inner node whose branches both lead to it.
    """
    leaf, child = (trees.feature == LEAF).numpy(), trees.children().numpy()
    roots = trees.roots.numpy()
    split = ~leaf
    split[roots] = True
    place = np.where(split, split.cumsum(), leaf.cumsum()) - 1
    as_leaf = leaf.cumsum() - 1  # a root that is a leaf has a place among both
    at = np.flatnonzero(split)
    true, false = child[at], np.where(leaf[at], child[at], child[at] + 1)

    def ints(array: NDArray[Any]) -> list[int]:
        return [int(number) for number in array]

    def numbers(array: NDArray[Any]) -> Any:
        return onnx.numpy_helper.from_array(np.ascontiguousarray(array))

    def branch(node: NDArray[Any]) -> list[int]:
        return ints(np.where(leaf[node], as_leaf[node], place[node]))

    return {
        "n_targets": 1,
        "aggregate_function": 1,  # the sum
        "post_transform": 0,  # none
        "tree_roots": ints(place[roots]),
        "nodes_modes": numbers(np.zeros(len(at), dtype=np.uint8)),  # x ≤ threshold
        "nodes_featureids": ints(np.maximum(trees.feature.numpy()[at], 0)),
        "nodes_splits": numbers(trees.threshold.numpy()[at].astype(np.float64)),
        "nodes_missing_value_tracks_true": ints(trees.missing_left.numpy()[at]),
        "nodes_truenodeids": branch(true),
        "nodes_falsenodeids": branch(false),
        "nodes_trueleafs": ints(leaf[true]),
        "nodes_falseleafs": ints(leaf[false]),
        "leaf_targetids": [0] * int(leaf.sum()),
        "leaf_weights": numbers(trees.value.numpy()[leaf]),
    }
