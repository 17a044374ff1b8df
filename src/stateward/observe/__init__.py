"""What is counted, logged and told: numbers, alarms, their exporters and their rules."""
