"""What tests are made with: real servers, a proxy that breaks connections, child processes to talk to."""
