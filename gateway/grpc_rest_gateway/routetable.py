"""The routes of a gateway by method and path: those of RPCs, and plain ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from grpc_rest_gateway.httprule import ROOT, PathError, PathRouter, TemplateError, parse_template
from grpc_rest_gateway.plain import PlainHandler, PlainRoute
from grpc_rest_gateway.routes import RouteBinding, RouteError, add_routes
from grpc_rest_gateway.settings import GatewaySettings

Route: TypeAlias = RouteBinding | PlainRoute


class RouteTable:
    """All routes, and which of them browsers of every origin can read."""

    def __init__(self, settings: GatewaySettings, bindings: Iterable[RouteBinding]) -> None:
        self._settings = settings
        listed = settings.cors_paths
        self._cors_paths = frozenset(path for path in listed if not path.endswith("*"))
        self._cors_prefixes = tuple(path[:-1] for path in listed if path.endswith("*"))
        self._router: PathRouter[Route] = PathRouter()
        add_routes(self._router, bindings)

    def add_plain(self, method: str, path: str, handler: PlainHandler, *, cors: bool) -> None:
        """Serve a path template, or "/", with a plain handler; RouteError if the path is taken."""
        try:
            template = ROOT if path == ROOT.text else parse_template(path)
            self._router.add(method, template, PlainRoute(template, handler, cors))
        except TemplateError as error:
            raise RouteError(str(error)) from error

    def reserve(self, segments: Iterable[str]) -> None:
        """Reserve first segments of paths: routes that start with a variable do not match them."""
        for segment in segments:
            self._router.reserve(segment)

    def normalize(self, path: str) -> str:
        """Return a path without extra slashes, if the settings allow them."""
        return _strip_extra_slashes(path) if self._settings.lenient_paths else path

    def find_route(self, method: str, path: str) -> tuple[Route, tuple[str, ...]] | None:
        """Return the route of a request with the texts of its variables; None without a route."""
        match = self._router.find_route(method, path)
        if match is None and (other := self.normalize(path)) != path:
            match = self._router.find_route(method, other)
        return match

    def list_methods(self, path: str) -> list[str]:
        """Return the methods of the routes at a normalized path."""
        return self._router.list_methods(path)

    def allows_cors(self, path: str) -> bool:
        """Return True if browsers of every origin can read responses and errors at this path."""
        path = self.normalize(path)
        if self.is_cors_path(path):
            return True
        try:
            methods = self._router.list_methods(path)
            routes = [self._router.find_route(method, path) for method in methods]
        except PathError:
            return False
        return any(route is not None and route[0].cors for route in routes)

    def is_cors_path(self, path: str) -> bool:
        """Return True if the settings list the path as readable, whatever its routes say."""
        return path in self._cors_paths or path.startswith(self._cors_prefixes)


def _strip_extra_slashes(path: str) -> str:
    if path.startswith("//"):
        path = path[1:]
    return path[:-1] if len(path) > 1 and path.endswith("/") else path
