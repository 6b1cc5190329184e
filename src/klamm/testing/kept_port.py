"""A port of 127.0.0.1 that stays with a broker between its runs."""

from __future__ import annotations

import socket
import weakref
from typing import Final

__all__ = ["KeptPort"]

_HOST: Final = "127.0.0.1"


class KeptPort:
    """The port of a broker that may be stopped and started again.

    A bound socket that does not listen keeps the port: the system gives it to no other program while the broker is
    away, and refuses connections to it. The socket is closed with this object.
    """

    def __init__(self, number: int = 0) -> None:
        """Takes a port that the caller has chosen, which is not kept; with 0, `choose` chooses one."""
        self.number = number
        """0 until there is one."""

    def choose(self) -> None:
        """Chooses a free port and keeps it, unless there is one.

        Does nothing where two sockets can't share a port, as on macOS: the broker then chooses its port itself.
        """
        if self.number:
            return
        keeper = _bound(0)
        number: int = keeper.getsockname()[1]
        try:
            with _bound(number) as probe:
                probe.listen()
        except OSError:
            keeper.close()
            return
        self.number = number
        weakref.finalize(self, keeper.close)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        # The sockets of servers have this option, too.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((_HOST, port))
    except BaseException:
        bound.close()
        raise
    return bound
