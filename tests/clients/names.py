"""A name server that knows one name, whose address can change."""

import socket
import struct
import threading
from typing import Self

A_RECORD = 1


class FakeDns:
    """Answers every question for an IPv4 address with `address`, on a UDP port of 127.0.0.1."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._thread = threading.Thread(target=self._serve)

    @property
    def port(self) -> int:
        return int(self._socket.getsockname()[1])

    def __enter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            question, client = self._socket.recvfrom(4096)
            if not question:
                return
            self._socket.sendto(self._answer(question), client)

    def _answer(self, question: bytes) -> bytes:
        """Repeats the question; adds the address, valid for 0 seconds, if it is one for IPv4."""
        end = question.index(b"\0", 12) + 5
        asked = question[12:end]
        (kind,) = struct.unpack("!H", asked[-4:-2])
        answer = struct.pack("!HHHIH", 0xC00C, A_RECORD, 1, 0, 4) + socket.inet_aton(self.address)
        found = kind == A_RECORD
        header = question[:2] + struct.pack("!HHHHH", 0x8180, 1, int(found), 0, 0)
        return header + asked + (answer if found else b"")
