"""Lets an etcd authenticate its users, as an operator does with `etcdctl`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from klamm.metadata.etcd.etcd_client import Method
from klamm.metadata.etcd.generated import etcd_messages_pb2 as messages

__all__ = ["authenticate_users"]

_ADD_USER: Final[Method[Any, Any]] = Method(
    "/etcdserverpb.Auth/UserAdd", messages.AuthUserAddResponse, messages.AuthUserAddRequest
)
_GRANT: Final[Method[Any, Any]] = Method(
    "/etcdserverpb.Auth/UserGrantRole", messages.AuthUserGrantRoleResponse, messages.AuthUserGrantRoleRequest
)
_ADD_ROLE: Final[Method[Any, Any]] = Method(
    "/etcdserverpb.Auth/RoleAdd", messages.AuthRoleAddResponse, messages.AuthRoleAddRequest
)
_PERMIT: Final[Method[Any, Any]] = Method(
    "/etcdserverpb.Auth/RoleGrantPermission",
    messages.AuthRoleGrantPermissionResponse,
    messages.AuthRoleGrantPermissionRequest,
)
_ENABLE: Final[Method[Any, Any]] = Method(
    "/etcdserverpb.Auth/AuthEnable", messages.AuthEnableResponse, messages.AuthEnableRequest
)


def authenticate_users(call: Callable[[Method[Any, Any], Any], Any], user: str, password: str, *, prefix: str) -> None:
    """Adds `root`, and a user who may read and write the keys below the prefix, and switches authentication on.

    `call` makes a call as a client without a user.
    """
    begin = f"/{prefix}/".encode()
    permission = messages.Permission(
        permType=messages.Permission.READWRITE, key=begin, range_end=begin[:-1] + bytes([begin[-1] + 1])
    )
    call(_ADD_USER, messages.AuthUserAddRequest(name="root", password=password))
    call(_GRANT, messages.AuthUserGrantRoleRequest(user="root", role="root"))
    call(_ADD_ROLE, messages.AuthRoleAddRequest(name="brokers"))
    call(_PERMIT, messages.AuthRoleGrantPermissionRequest(name="brokers", perm=permission))
    call(_ADD_USER, messages.AuthUserAddRequest(name=user, password=password))
    call(_GRANT, messages.AuthUserGrantRoleRequest(user=user, role="brokers"))
    call(_ENABLE, messages.AuthEnableRequest())
