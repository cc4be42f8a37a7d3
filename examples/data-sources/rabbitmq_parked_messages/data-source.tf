resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s", "30s", "5m"]
}

# Messages that failed more than three times in the work queue, from a day ago on.
data "rabbitmq_parked_messages" "orders" {
  queue = rabbitmq_retry_chain.orders.parking_queue.name

  filter = {
    origin_queue = rabbitmq_retry_chain.orders.work_queue.name
    min_attempts = 4
    newer_than   = "24h"
  }

  # The queue must be there before it can be read.
  depends_on = [rabbitmq_retry_chain.orders]
}

output "parked_by_routing_key" {
  value = { for g in data.rabbitmq_parked_messages.orders.groups.by_routing_key : g.name => g.count }
}
