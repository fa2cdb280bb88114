"""Models: load ONNX files, calibrate, quantize, plan, run and save."""

from mdtensor.graph import Graph as Graph, Node as Node
from mdtensor.graph.plan import Plan as Plan, PlannedNode as PlannedNode
from mdtensor.quant.model.budget import Budget as Budget
from mdtensor.quant.model.decided import DecidedModel as DecidedModel
from mdtensor.quant.model.load import load as load
from mdtensor.quant.model.model import Model as Model
from mdtensor.quant.model.quantize.calibrate import Calibration as Calibration
from mdtensor.quant.model.sized import SizedModel as SizedModel
