resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s", "30s", "5m"]
}

# [
#   { attempt = 1, wait = "0s", elapsed = "0s" },
#   { attempt = 2, wait = "5s", elapsed = "5s" },
#   { attempt = 3, wait = "30s", elapsed = "35s" },
#   { attempt = 4, wait = "5m", elapsed = "5m35s" },
# ]
output "schedule" {
  value = provider::rabbitmq::retry_schedule(rabbitmq_retry_chain.orders.delays)
}
