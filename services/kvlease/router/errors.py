"""What the router refuses. Public attributes are the variable parts of the message."""


class RouterError(Exception):
    """The router refused a call."""


class NoEngine(RouterError):
    """The model is served, but no decode engine may be used now; or no engine is known, whatever it would serve."""

    def __init__(self, model: str) -> None:
        super().__init__(f"no decode engine for {model!r} is healthy, not draining and not excluded; try again")
        self.model = model


class ModelNotFound(RouterError):
    """No engine answers to the model's name."""

    def __init__(self, model: str) -> None:
        super().__init__(f"no engine serves {model!r}; see ListEngines for the models that are served")
        self.model = model


class RegistryUnreachable(RouterError):
    """The registry does not answer in time, and what was known of the engines is too old."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"the registry cannot be reached ({cause}); try again")
        self.cause = cause


class TicketForged(RouterError):
    """The ticket was not signed with this deployment's key, or was changed."""

    def __init__(self) -> None:
        super().__init__("this is no ticket of ours, or it was changed; route the turn again")


class TicketNotFound(RouterError):
    """The ticket is unknown, too old, over, or another tenant's."""

    def __init__(self, ticket_id: str) -> None:
        super().__init__("the ticket is unknown or over; route the turn again")
        self.ticket_id = ticket_id


class EngineMismatch(RouterError):
    """The ticket names another engine, or another start of this one."""

    def __init__(self, engine_id: str, incarnation: str) -> None:
        super().__init__("the ticket names another engine, or another start of this one; compute without it")
        self.engine_id = engine_id
        self.incarnation = incarnation


class RequestIdTaken(RouterError):
    """The request id was used for another turn."""

    def __init__(self, request_id: str) -> None:
        super().__init__("the request id was used for another turn; make a new one")
        self.request_id = request_id
