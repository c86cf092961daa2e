"""The labelling page: a local server that shows people pairs of clips and keeps what they prefer."""

from mdcontest.preferences.labelling.client import Client
from mdcontest.preferences.labelling.launch import LabellingServer, start_labelling
from mdcontest.preferences.labelling.session import LabelOptions

__all__ = ["Client", "LabelOptions", "LabellingServer", "start_labelling"]
