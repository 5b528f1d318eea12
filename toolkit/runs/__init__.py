"""Plan, gateway, ledger and execution: everything between a study and its kept replies."""
