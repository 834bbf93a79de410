"""What chains want to be made before anybody can pay."""
