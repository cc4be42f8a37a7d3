# Any delay up to 8.5 years, in steps of a second.
resource "rabbitmq_delay_network" "delays" {
  name = "delays"
}

# Publish to the exchange "delays" with this routing key: after 90 seconds the
# message is delivered to the destination "orders".
output "example_key" {
  value = provider::rabbitmq::delay_key(rabbitmq_delay_network.delays, "90s", "orders")
}
