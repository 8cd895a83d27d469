"""An engine that publishes its KV events over gRPC and keeps them for replay. Written from the comments of kv_events.proto."""
import queue
import threading

from conftest import DEADLINE_S
from kvrouter.v1 import kv_events_pb2 as pb
from kvrouter.v1 import kv_events_pb2_grpc


class Publisher:
    """One stream. `history` is the engine's: pass it on to the stream of a reconnect."""

    def __init__(self, daemon, worker_id, dp_rank=0, history=None, can_replay=True, counting=pb.STORE_COUNTING_DEFAULT, incarnation=None):
        self.history = history if history is not None else []
        self.answers = []
        self.error = None
        self.changed = threading.Condition()
        self.requests = queue.Queue(maxsize=64)
        start = pb.PublishStart(worker_id=worker_id, dp_rank=dp_rank, can_replay=can_replay, store_counting=counting)
        if incarnation is not None:
            start.incarnation = incarnation
        self.requests.put(pb.PublishRequest(start=start))
        self.call = kv_events_pb2_grpc.KvEventsStub(daemon.channel).Publish(iter(self.requests.get, None))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        try:
            for answer in self.call:
                if answer.HasField('replay_from'):
                    self._replay(answer.replay_from)
                with self.changed:
                    self.answers.append(answer)
                    self.changed.notify_all()
        except Exception as error:  # grpc.RpcError: how the stream ended
            with self.changed:
                self.error = error
                self.changed.notify_all()

    def _replay(self, wanted):
        for batch in list(self.history):
            if batch.sequence >= wanted.sequence:
                self.requests.put(pb.PublishRequest(replayed=pb.ReplayedBatch(replay_id=wanted.replay_id, batch=batch)))
        self.requests.put(pb.PublishRequest(replay_end=pb.ReplayEnd(replay_id=wanted.replay_id)))

    def make(self, *events):
        """A batch that the engine made and remembers; sent by nobody yet."""
        sequence = self.history[-1].sequence + 1 if self.history else 0
        self.history.append(pb.EventBatch(sequence=sequence, timestamp_seconds=1000.25 + sequence, events=events))
        return self.history[-1]

    def publish(self, *events):
        self.requests.put(pb.PublishRequest(live=self.make(*events)), timeout=DEADLINE_S)

    def wait(self, what, condition):
        """The first answer, from the latest known on, for which it holds."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.error or (self.answers and condition(self.answers[-1])), DEADLINE_S), \
                f'{what}: {self.answers[-1:]}'
            assert self.error is None, self.error
            return self.answers[-1]

    def wait_for_all(self):
        return self.wait('acknowledged', lambda a: a.acknowledged_sequence == self.history[-1].sequence and a.state in ('live', 'degraded'))

    def wait_for_end(self):
        with self.changed:
            assert self.changed.wait_for(lambda: self.error, DEADLINE_S), 'the stream goes on'
        return self.error

    def close(self):
        self.requests.put(None)
        self.reader.join(DEADLINE_S)


def stored(hashes, tokens=(), parent=None, block_size=4, local_hashes=(), **fields):
    event = pb.BlocksStored(engine_hashes=hashes, token_ids=tokens, local_block_hashes=local_hashes, block_size_tokens=block_size, **fields)
    if parent is not None:
        event.parent_hash = parent
    return pb.KvEvent(stored=event)


def removed(hashes):
    return pb.KvEvent(removed=pb.BlocksRemoved(engine_hashes=hashes))
