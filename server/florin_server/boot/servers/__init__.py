"""What listens: gRPC, REST, metrics; where, who calls there, and how one reaches another."""
