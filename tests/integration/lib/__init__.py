"""Real servers, real daemons, and the questions the tests ask them."""
