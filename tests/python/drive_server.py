#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Drives real Weir daemons from a foreign client: generated messages, default gRPC limits.

Usage: drive_server.py BIN_FOLDER PROTO_ROOT PROTOC

Starts a coordinator and a server on loopback, registers as a worker, declares, assigns, pushes and pulls,
and checks every value. Exits with 77 (skipped) where Python's gRPC is not installed.
"""
import array
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import grpc
    import google.protobuf  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; install python3-grpcio and python3-protobuf")
    sys.exit(77)

BIN, PROTO_ROOT, PROTOC = sys.argv[1:4]
FOLDER = tempfile.TemporaryDirectory(prefix="weir-python-")
PROTOS = ["variables", "job_spec", "view", "parameter_server", "server_control", "coordinator"]
subprocess.run(
    [PROTOC, f"-I{PROTO_ROOT}", f"--python_out={FOLDER.name}"]
    + [f"{PROTO_ROOT}/weir/v1/{name}.proto" for name in PROTOS],
    check=True,
)
sys.path.insert(0, FOLDER.name)
from weir.v1 import coordinator_pb2, parameter_server_pb2, variables_pb2, view_pb2  # noqa: E402
from weir.v1 import job_spec_pb2  # noqa: E402

MESSAGE_LIMIT = 4_194_304
WORKER = random.getrandbits(63) + 1
BIG = 2_000_000
SMALL = 5
DEADLINE = 60


class Daemon:
    """One process that prints `... ready address=HOST:PORT`."""

    def __init__(self, program, *flags):
        self.process = subprocess.Popen(
            [os.path.join(BIN, program), *flags], stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        if "ready address=" not in line:
            raise RuntimeError(f"{program} did not start: {line!r}")
        self.address = line.strip().split("address=")[1]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.process.stdout.close()


class Service:
    """Calls of one service by name, with messages of `module` or raw bytes."""

    def __init__(self, channel, name, module):
        self.channel, self.name, self.module = channel, name, module

    def call(self, method, request, reply_type, timeout=DEADLINE):
        serialize = (lambda raw: raw) if isinstance(request, bytes) else type(request).SerializeToString
        stub = self.channel.unary_unary(
            f"/{self.name}/{method}",
            request_serializer=serialize,
            response_deserializer=getattr(self.module, reply_type).FromString,
        )
        return stub(request, timeout=timeout)

    def retry(self, method, request, reply_type):
        """As call, but again while the answer is `not yet`."""
        until = time.monotonic() + DEADLINE
        while True:
            try:
                return self.call(method, request, reply_type)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                    raise
                time.sleep(0.05)


class Views:
    """The newest view of a run, from Watch."""

    def __init__(self, channel, run_id):
        stub = channel.unary_stream(
            "/weir.v1.CoordinatorService/Watch",
            request_serializer=coordinator_pb2.WatchRequest.SerializeToString,
            response_deserializer=coordinator_pb2.WatchEvent.FromString,
        )
        self.stream = stub(coordinator_pb2.WatchRequest(incarnation=WORKER, run_id=run_id))
        self.changed = threading.Condition()
        self.view = None
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        try:
            for event in self.stream:
                with self.changed:
                    if event.HasField("view"):
                        self.view = event.view
                    self.changed.notify_all()
        except grpc.RpcError:
            pass  # cancelled

    def wait(self, claim, what):
        until = time.monotonic() + DEADLINE
        with self.changed:
            while self.view is None or not claim(self.view):
                if not self.changed.wait(until - time.monotonic()) and time.monotonic() > until:
                    raise RuntimeError(f"no view with {what}; the last one: {self.view}")
            return self.view

    def close(self):
        self.stream.cancel()
        self.thread.join()


def job_spec():
    spec = job_spec_pb2.JobSpec(name="python", workers=1, min_workers=1, train_examples=1000)
    spec.regime.kind = job_spec_pb2.REGIME_ASYNC
    spec.length.steps = 1000
    spec.data.batch.per_replica = 1
    return spec


def declaration():
    declared = variables_pb2.Declaration()
    group = declared.groups.add(name="all")
    group.optimizer.learning_rate.base = 1.0
    group.optimizer.sgd.SetInParent()
    declared.variables.add(name="small", dtype=variables_pb2.DTYPE_F32, shape=[SMALL], group=1)
    declared.variables.add(name="none", dtype=variables_pb2.DTYPE_F32, shape=[0], group=1)
    declared.variables.add(name="big", dtype=variables_pb2.DTYPE_F32, shape=[BIG], group=1)
    return declared


def shards(shard_map):
    """(shard, first element of the job's 0 .. SMALL + BIG, elements), as sharding/layout.h cuts."""
    per_shard = shard_map.shard_bytes // 4
    result, base = [], 0
    for elements in (SMALL, 0, BIG):
        for first in range(0, elements, per_shard):
            result.append((len(result), base + first, min(per_shard, elements - first)))
        base += elements
    return result


def messages(all_shards, header_bytes=64 * 1024):
    """Runs of shards that fit one message."""
    run, used = [], 0
    for shard in all_shards:
        size = 4 * shard[2]
        if used + size + header_bytes > MESSAGE_LIMIT:
            yield run
            run, used = [], 0
        run.append(shard)
        used += size
    yield run


class DriveServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.coordinator = Daemon(
            "weir-coordinator", "--listen", "127.0.0.1:0", "--data-dir", f"{FOLDER.name}/coordinator",
            "--lease-ms", "600000",
        )
        cls.addClassCleanup(cls.coordinator.stop)
        cls.server = Daemon(
            "weir-server", "--coordinator", cls.coordinator.address, "--name", "server-0",
            "--listen", "127.0.0.1:0", "--data-dir", f"{FOLDER.name}/server",
        )
        cls.addClassCleanup(cls.server.stop)
        cls.to_coordinator = grpc.insecure_channel(cls.coordinator.address)
        cls.to_server = grpc.insecure_channel(cls.server.address)
        cls.control = Service(cls.to_coordinator, "weir.v1.CoordinatorService", coordinator_pb2)
        cls.data = Service(cls.to_server, "weir.v1.ParameterService", parameter_server_pb2)
        cls.join()
        cls.sequence = 0
        cls.expected = array.array("f", (float(i % 1000) for i in range(SMALL + BIG)))
        cls.assign()

    @classmethod
    def tearDownClass(cls):
        cls.views.close()
        cls.to_coordinator.close()
        cls.to_server.close()

    @classmethod
    def join(cls):
        request = coordinator_pb2.RegisterRequest(
            spec=job_spec(), worker=WORKER, wanted_rank=-1, protocol_min=1, protocol_max=1
        )
        cls.run_id = cls.control.retry("Register", request, "RegisterReply").run_id
        cls.views = Views(cls.to_coordinator, cls.run_id)
        cls.control.retry(
            "Declare",
            coordinator_pb2.DeclareRequest(run_id=cls.run_id, worker=WORKER, declaration=declaration()),
            "DeclareReply",
        )
        cls.view = cls.views.wait(
            lambda view: view.state == view_pb2.JOB_STATE_INITIALISING and view.initialiser == WORKER,
            "INITIALISING",
        )
        cls.shards = shards(cls.view.shard_map)

    @classmethod
    def context(cls):
        return parameter_server_pb2.RequestContext(
            run_id=cls.run_id,
            attempt=cls.view.attempt,
            generation=cls.view.generation,
            shard_map_version=cls.view.shard_map.version,
            worker=WORKER,
            server_incarnation=cls.view.shard_map.servers[0].incarnation,
        )

    @classmethod
    def assign(cls):
        for run in messages(cls.shards):
            request = parameter_server_pb2.AssignRequest(context=cls.context())
            cls.add_segments(request, run)
            request.payload = cls.bytes_of(cls.expected, run)
            cls.data.retry("Assign", request, "AssignReply")
        cls.control.retry(
            "ReportInitialised",
            coordinator_pb2.ReportInitialisedRequest(
                run_id=cls.run_id, worker=WORKER, attempt=cls.view.attempt
            ),
            "ReportInitialisedReply",
        )
        cls.view = cls.views.wait(lambda view: view.state == view_pb2.JOB_STATE_RUNNING, "RUNNING")

    @staticmethod
    def add_segments(request, run, absent=False):
        for shard, _, count in run:
            request.segments.add(shard=shard, first_element=0, count=count, absent=absent)

    @staticmethod
    def bytes_of(values, run):
        return b"".join(values[first : first + count].tobytes() for _, first, count in run)

    def pull(self):
        """All values."""
        values = array.array("f", bytes(4 * (SMALL + BIG)))
        for run in messages(self.shards):
            request = parameter_server_pb2.PullRequest(context=self.context())
            self.add_segments(request, run)
            reply = self.data.retry("Pull", request, "PullReply")
            got, at = array.array("f", reply.payload), 0
            for (_, first, count), segment in zip(run, reply.segments):
                self.assertEqual(segment.count, count)
                values[first : first + count] = got[at : at + count]
                at += count
            self.assertEqual(at, len(got))
        return values

    def push_request(self, run, gradient):
        request = parameter_server_pb2.PushRequest(
            context=self.context(), group=1, sequence=self.sequence, step=self.sequence - 1,
            group_step=self.sequence - 1, weight=1.0, examples=1,
        )
        self.add_segments(request, run)
        request.payload = self.bytes_of(gradient, run)
        return request

    def push(self, gradient):
        """One push of the group, in as many messages as it takes; each is sent twice."""
        type(self).sequence += 1
        for run in messages(self.shards):
            request = self.push_request(run, gradient)
            self.assertLessEqual(request.ByteSize(), MESSAGE_LIMIT)
            first = self.data.retry("Push", request, "PushReply")
            again = self.data.retry("Push", request, "PushReply")
            self.assertFalse(first.outcome.repeated)
            self.assertTrue(again.outcome.repeated)
        self.apply(gradient)

    def apply(self, gradient):
        for i in range(len(self.expected)):
            self.expected[i] -= gradient[i]

    def test_1_hello_agrees_on_a_protocol(self):
        request = parameter_server_pb2.HelloRequest(protocol_min=1, protocol_max=1, worker=WORKER)
        reply = self.data.call("Hello", request, "HelloReply")
        self.assertEqual(reply.protocol, 1)
        self.assertGreater(reply.credit_bytes, 0)
        self.assertEqual(reply.server_incarnation, self.view.shard_map.servers[0].incarnation)

    def test_2_assigned_values_come_back(self):
        self.assertEqual(self.pull(), self.expected)

    def test_3_push_sent_twice_is_applied_once(self):
        for scale in (1, 2):
            self.push(array.array("f", (float(scale * (i % 7)) for i in range(SMALL + BIG))))
        self.assertEqual(self.pull(), self.expected)

    def test_4_push_pull_answers_with_fresh_weights(self):
        type(self).sequence += 1
        gradient = array.array("f", [1.0] * SMALL + [0.0] * BIG)
        small, rest = self.shards[:1], self.shards[1:]
        absent = self.push_request([], gradient)
        self.add_segments(absent, rest, absent=True)
        self.data.retry("Push", absent, "PushReply")
        reply = self.data.retry("PushPull", self.push_request(small, gradient), "PullReply")
        self.apply(gradient)
        self.assertEqual(array.array("f", reply.payload), self.expected[:SMALL])
        self.assertEqual(self.pull(), self.expected)

    def test_5_fields_in_any_order_are_understood(self):
        type(self).sequence += 1
        gradient = array.array("f", [3.0] * SMALL + [0.0] * BIG)
        absent = self.push_request([], gradient)
        self.add_segments(absent, self.shards[1:], absent=True)
        self.data.retry("Push", absent, "PushReply")
        header = self.push_request(self.shards[:1], gradient)
        payload = parameter_server_pb2.PushRequest(payload=header.payload)
        header.ClearField("payload")
        backwards = payload.SerializeToString() + header.SerializeToString()
        self.data.retry("Push", backwards, "PushReply")
        self.apply(gradient)
        self.assertEqual(self.pull(), self.expected)

    def test_6_random_bytes_are_invalid_and_change_nothing(self):
        random.seed(1)
        for size in range(1, 200):
            raw = bytes([0x7A, 0xFF]) + random.randbytes(size % 3)
            for method, reply in (("Push", "PushReply"), ("Assign", "AssignReply")):
                with self.assertRaises(grpc.RpcError) as error:
                    self.data.call(method, raw, reply)
                self.assertEqual(error.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.pull(), self.expected)

    def test_7_message_over_the_limit_is_refused(self):
        request = parameter_server_pb2.PushRequest(payload=bytes(MESSAGE_LIMIT))
        with self.assertRaises(grpc.RpcError) as error:
            self.data.call("Push", request, "PushReply")
        self.assertEqual(error.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_8_a_collective_of_the_only_worker_is_what_it_gave(self):
        values = array.array("d", [1.5, -2.5])
        request = parameter_server_pb2.ReduceRequest(
            context=self.context(), sequence=1, step=3, weight=2.0, count=2, payload=values.tobytes()
        )
        request.collective.name = "loss"
        request.collective.op = parameter_server_pb2.REDUCE_OP_MEAN
        request.collective.dtype = variables_pb2.DTYPE_F64
        request.collective.shape.append(2)
        request.collective.replicas = 1
        for _ in range(2):  # the second time from the record
            reply = self.data.retry("Reduce", request, "ReduceReply")
            self.assertEqual(array.array("d", reply.payload), values)
            self.assertEqual((reply.members, reply.weight), (1, 2.0))
        request.count = 1
        request.sequence = 2
        with self.assertRaises(grpc.RpcError) as error:
            self.data.call("Reduce", request, "ReduceReply")
        self.assertEqual(error.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("16 bytes; 8 are expected", error.exception.details())

    def test_9_health_and_reflection_answer(self):
        daemons = (
            (self.to_server, (b"weir.v1.ParameterService", b"weir.v1.ServerControl")),
            (self.to_coordinator, (b"weir.v1.CoordinatorService",)),
        )
        for channel, services in daemons:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(check(b"", timeout=DEADLINE), b"\x08\x01")  # status: SERVING
            reflect = channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            )
            names = b"".join(reflect(iter([b"\x3a\x01*"]), timeout=DEADLINE))  # list_services: "*"
            for service in services:
                self.assertIn(service, names)

    def test_server_drains_and_exits_with_0_on_sigterm(self):
        self.assertEqual(self.server.stop(), 0)


class RefusedFlags(unittest.TestCase):
    """A daemon that cannot start says why in one line, and exits with 1."""

    def refusal(self, *flags):
        command = [os.path.join(BIN, "weir-server"), "--data-dir", f"{FOLDER.name}/refused", *flags]
        result = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        return result.stderr

    def test_port_in_use_is_one_line_that_names_it(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            line = self.refusal("--coordinator", "127.0.0.1:1", "--listen", address)
            self.assertIn(address, line)
            self.assertIn("in use", line)

    def test_plaintext_where_others_reach_it_is_refused(self):
        line = self.refusal("--coordinator", "127.0.0.1:1", "--listen", "0.0.0.0:0")
        self.assertIn("--insecure-listen", line)

    def test_address_that_is_none_is_named(self):
        self.assertIn("'nowhere'", self.refusal("--coordinator", "nowhere"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
