"""Where each data set can be downloaded, with the checksums that are known."""

from __future__ import annotations

from yinyan.datasets import enron, heart, knowledge, ogb, planetoid, recommender, seal
from yinyan.datasets.places import Group, Source

__all__ = [
    *("COLLEGEMSG", "ENRON", "heart_group", "knowledge_group", "ogb_group", "planetoid_group"),
    *("recommender_group", "seal_group"),
]

_PLANETOID = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data"
_SEAL = "https://raw.githubusercontent.com/muhanzhang/SEAL/ea2d4249cfed4c5a570538a939f90469957b5f94"
_OGB = "http://snap.stanford.edu/ogb/data/linkproppred"  # as OGB's own master.csv has it
_SNAP = "https://snap.stanford.edu/data"
_HEART = "https://cse.msu.edu/~shomerha/HeaRT-Data/"

# Checksums of copies whose counts are the published ones. For OGB's archives and SNAP's files none is known: these are
# checked by the length the server names, by their CRC and by the counts in the files.
_SHA256 = {
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "NS.mat": "c69258a674e13115e34ec11343c92f352bcec635baf3fe40f0adf6e8a5037019",
    "Power.mat": "87d7b9d5449b6a18fad4fdd662efd33be84c805ea66692f9e2e0791569c5a478",
    "Router.mat": "bae603199c2ddb0f8776acb1962c9c6ed89773da9d41377d6a7f8cc2b1e3a1c1",
    "USAir.mat": "6b48a37e2bb398234e5383787c30dca087de704366a2b7b05d64cc2f53210e0b",
}

_SMALL = 100_000_000  # bytes: the largest of the files that are fetched one by one has 8 MB

COLLEGEMSG = Group(
    "collegemsg",
    ("CollegeMsg.txt.gz",),
    sources={"CollegeMsg.txt.gz": Source(f"{_SNAP}/CollegeMsg.txt.gz", most=_SMALL)},
)
ENRON = Group("enron", (enron.FILE,), sources={enron.FILE: Source(f"{_SNAP}/{enron.FILE}", most=_SMALL)})


def planetoid_group(name: str) -> Group:
    """The files of Cora, Citeseer or Pubmed."""
    files = tuple(f"ind.{name}.{ending}" for ending in planetoid.ENDINGS)
    return Group("planetoid", files, {file: Source(f"{_PLANETOID}/{file}", _SHA256[file], _SMALL) for file in files})


def seal_group(name: str) -> Group:
    """The file of one of SEAL's graphs."""
    file = seal.FILES[name]
    room = "MATLAB" if name == "ns" else "Python"  # its repository keeps this one elsewhere
    return Group("seal_mat", (file,), {file: Source(f"{_SEAL}/{room}/data/{file}", _SHA256[file], _SMALL)})


def heart_group(name: str, *, hard: bool) -> Group:
    """The files of a HeaRT split; they are offered to people, not at addresses that are known to stay."""
    return Group(f"heart/{name}", (*heart.FILES, *(heart.HARD_FILES if hard else ())), home=_HEART)


def recommender_group(name: str) -> Group:
    """The files of a recommender data set; there is no address that is known to stay."""
    layout = recommender.LAYOUTS[name]
    line = "a user and all of its items" if layout.lists else "a user, an item and a 1"
    form = f"gzip files {', '.join(layout.files)} with lines of {line}, all as numbers"
    return Group(f"recommender/{name}", layout.files, form=form)


def knowledge_group(name: str) -> Group:
    """The files of a knowledge graph; there is no address that is known to stay."""
    form = f"gzip files {', '.join(knowledge.FILES)} with lines of head, relation and tail, between tabs"
    return Group(f"kg/{name}", knowledge.FILES, form=form)


def ogb_group(layout: ogb.Layout) -> Group:
    """The files of one of OGB's data sets."""
    archive = Source(f"{_OGB}/{layout.archive}.zip")
    return Group(layout.folder, layout.files, archive=archive, inner=layout.archive)
