#!/usr/bin/env python3
"""The other end of a ZeroMQ event path, by libzmq itself: what it sees, and what it sends, frame by frame.

    zmq_peer.py listen EVENTS REPLAY TOPIC COUNT   subscribes, then asks for a replay from 0; prints what came
    zmq_peer.py publish                            binds PUB and ROUTER; publishes what it reads

Everything said on standard input and output is one JSON document a line, and frames are hexadecimal.
"""

import json
import sys
import threading

import zmq

END = b"\xff" * 8


def say(**what):
    print(json.dumps(what), flush=True)


def listen(events, replay, topic, count):
    """Prints `ready`, then COUNT live messages, then everything that a replay from 0 brings."""
    context = zmq.Context()
    subscriber = context.socket(zmq.SUB)
    subscriber.setsockopt_string(zmq.SUBSCRIBE, topic)
    subscriber.connect(events)
    subscriber.setsockopt(zmq.RCVTIMEO, 20_000)
    # The first message shows that the subscription has arrived.
    subscriber.recv_multipart()
    say(ready=True)
    for _ in range(count):
        say(live=[frame.hex() for frame in subscriber.recv_multipart()])
    dealer = context.socket(zmq.DEALER)
    dealer.setsockopt(zmq.RCVTIMEO, 20_000)
    dealer.connect(replay)
    dealer.send_multipart([b"", (0).to_bytes(8, "big")])
    while True:
        frames = dealer.recv_multipart()
        say(replayed=[frame.hex() for frame in frames])
        if frames[-1] == b"":
            break
    context.destroy(linger=0)


class Publisher:
    """Numbers and publishes payloads, and answers replays from a thread of its own."""

    def __init__(self, topic):
        self.context = zmq.Context()
        self.topic = topic
        self.kept = []
        self.lock = threading.Lock()
        self.events = self.context.socket(zmq.PUB)
        self.replay = self.context.socket(zmq.ROUTER)
        ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (self.events, self.replay)]
        self.endpoints = [f"tcp://127.0.0.1:{port}" for port in ports]
        threading.Thread(target=self.answer, daemon=True).start()

    def publish(self, payload, live):
        with self.lock:
            number = len(self.kept).to_bytes(8, "big")
            self.kept.append((number, payload))
        if live:
            self.events.send_multipart([self.topic, number, payload])

    def answer(self):
        while True:
            client, *request = self.replay.recv_multipart()
            if len(request) != 2 or request[0] != b"":
                continue
            start = int.from_bytes(request[1], "big")
            with self.lock:
                kept = self.kept[start:]
            for number, payload in kept:
                self.replay.send_multipart([client, b"", self.topic, number, payload])
            self.replay.send_multipart([client, b"", b"", END, b""])


def publish():
    """Prints its endpoints, then publishes each payload it reads, or only keeps it, until the input ends."""
    publisher = Publisher(b"kv-events")
    say(endpoints=publisher.endpoints)
    for line in sys.stdin:
        told = json.loads(line)
        publisher.publish(bytes.fromhex(told["payload"]), told["live"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["listen", events, replay, topic, count]:
            listen(events, replay, topic, int(count))
        case ["publish"]:
            publish()
        case _:
            sys.exit(__doc__)
