"""Reads what a ticket says. Only a router can tell whether it is true: see `reader`."""

import base64
import binascii

from google.protobuf.message import DecodeError

from kvlease.v1.router_pb2 import TicketTerms

VERSION = "kvt1"


class BadTicketError(ValueError):
    """This is no ticket."""


def read(ticket: str) -> TicketTerms:
    """Returns the unproved terms of *ticket*.

    Raises:
        BadTicketError: It is not of the form `kvt1.<terms>.<signature>`.
    """
    version, _, rest = ticket.partition(".")
    terms, _, signature = rest.partition(".")
    if version != VERSION or not signature:
        raise BadTicketError("a ticket has the form kvt1.<terms>.<signature>")
    try:
        return TicketTerms.FromString(base64.urlsafe_b64decode(terms + "=" * (-len(terms) % 4)))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise BadTicketError(f"the ticket's terms cannot be read: {error}") from error
