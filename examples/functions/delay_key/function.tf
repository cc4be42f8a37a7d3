resource "rabbitmq_delay_network" "delays" {
  name   = "delays"
  unit   = "1s"
  levels = 4
}

# [
#   "0.0.0.0.orders",
#   "0.0.0.1.orders",
#   "0.1.0.1.orders",
# ]
output "keys" {
  value = [for delay in ["0s", "250ms", "5s"] : provider::rabbitmq::delay_key(rabbitmq_delay_network.delays, delay, "orders")]
}
