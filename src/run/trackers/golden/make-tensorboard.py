"""Writes tensorboard.bin with TensorBoard's own classes (tensorboard 2.21): the events of ../tensorboard-file.test.ts. Usage: make-tensorboard.py FILE"""
import sys, struct
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata, HistogramProto
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.summary.writer.record_writer import RecordWriter
png = bytes(range(40))
events = [Event(wall_time=1700000000.25, file_version="brain.Event:2")]
S = Summary.Value
def ev(step, *values): return Event(wall_time=1700000001.5, step=step, summary=Summary(value=values))
events.append(ev(0, S(tag="train/success", simple_value=0.0), S(tag="train/reward", simple_value=-1.25)))
events.append(ev(300, S(tag="policy/kl", simple_value=float("inf")), S(tag="größe", simple_value=1e-8)))
events.append(Event(wall_time=1700000001.5, step=7, session_log=SessionLog(status=SessionLog.START)))
events.append(ev(123456789012, S(tag="frames", image=Summary.Image(height=200, width=3, colorspace=3, encoded_image_string=png))))
events.append(ev(2, S(tag="notes", tensor=TensorProto(dtype=7, tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]), string_val=["alarm: blind ✗".encode()]),
   metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")))))
events.append(ev(3, S(tag="rewards", histo=HistogramProto(min=0, max=1, num=4, sum=3, sum_squares=3, bucket_limit=[0.5, 1.0], bucket=[1, 3]))))
with open(sys.argv[1], "wb") as f:
    w = RecordWriter(f)
    for e in events: w.write(e.SerializeToString(deterministic=True))
    w.flush()
