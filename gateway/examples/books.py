"""A library of books: one service, called over gRPC and over REST."""

import asyncio

import books_pb2
import books_pb2_grpc
import grpc
from grpc_rest_gateway import HttpServer, LocalBackend, RestGateway, ServerSettings


class Library(books_pb2_grpc.LibraryServicer):
    """The service; nothing in it knows of REST."""

    def __init__(self):
        self.books = {}

    async def CreateBook(self, request, context):
        if request.id in self.books:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"There is a book {request.id}")
        self.books[request.id] = request
        return request

    async def GetBook(self, request, context):
        if request.id not in self.books:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"There is no book {request.id}")
        return self.books[request.id]

    async def WatchBooks(self, request, context):
        for book in list(self.books.values()):
            if book.pages >= request.min_pages:
                yield book


async def main():
    """Serve until the process ends."""
    library, server, backend = Library(), grpc.aio.server(), LocalBackend()
    for registry in (server, backend):
        books_pb2_grpc.add_LibraryServicer_to_server(library, registry)
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    services = [books_pb2.DESCRIPTOR.services_by_name["Library"]]
    http = HttpServer(RestGateway(backend, services), ServerSettings(port=8080))
    await http.start()
    print(f"gRPC at 127.0.0.1:{grpc_port}, REST at http://127.0.0.1:{http.port}", flush=True)
    await server.wait_for_termination()


asyncio.run(main())
