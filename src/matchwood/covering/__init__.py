"""Which subscription covers which: exact tests, indexes that find covers, relation graphs, and routers that use them."""
