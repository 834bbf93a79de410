"""Where a service is: for those who look at the terminal, and for commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from florin_server.boot.servers import consoles
from florin_server.boot.service import Service
from florin_server.cli.console import console, told_line
from florin_server.web.console.site import ROOT


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses; those of what it has not are empty."""

    home: Path
    files: Sequence[Path]
    http: str
    grpc: str
    operator: str
    metrics: Sequence[str] = ()
    console: bool = False
    chains: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, service: Service) -> Self:
        """Those of a service in this process."""
        return cls(
            home=service.home.path,
            files=service.settings.files()[:1],
            http=service.http_url,
            grpc=service.grpc.target,
            operator=service.grpc.operator_target,
            metrics=[service.metrics_url] if service.metrics_url else [],
            console=consoles.wants_merchants(service.settings),
            chains={"evm_rpc": service.evm_rpc_url, "solana_rpc": service.solana_rpc_url},
        )

    def told(self) -> dict[str, str]:
        """As other commands read them."""
        return {
            "http": self.http,
            "grpc": self.grpc,
            "operator": self.operator,
            "evm_rpc": self.chains.get("evm_rpc", ""),
            "solana_rpc": self.chains.get("solana_rpc", ""),
            "settings": "".join(str(one.resolve()) for one in self.files),
        }

    def show(self) -> None:
        """Prints them, and how to end what lasts."""
        told_line({name: place for name, place in self.told().items() if place})
        rpc, solana = (self.chains.get(one, "") for one in ("evm_rpc", "solana_rpc"))
        places = {
            "REST": self.http,
            "Console": f"{self.http}{ROOT}" if self.console and self.http else "",
            "gRPC": self.grpc,
            "Metrics": " ".join(self.metrics),
            "Test chain": rpc and f"{rpc}  (JSON-RPC, chain id 31337)",
            "Solana test chain": solana and f"{solana}  (JSON-RPC)",
            "State": str(self.home),
            "Settings": "".join(map(str, self.files)),
        }
        places = {what: place for what, place in places.items() if place}
        console.print("[bold green]Florin is up.[/]", markup=True)
        for what, place in places.items():
            # whole, however narrow the terminal: they are there to be copied
            console.print(f"{what:<{max(map(len, places))}}  {place}")
