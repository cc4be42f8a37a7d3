resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s", "30s", "5m"]
}

# terraform output -raw diagram > orders.mermaid
output "diagram" {
  value = provider::rabbitmq::topology_diagram(rabbitmq_retry_chain.orders.topology)
}

locals {
  small = {
    exchanges = { events = "topic" }
    queues    = { orders = "quorum" }
    bindings  = { "events -> orders (order.new)" = "" }
    policies  = {}
  }
}

# [
#   "flowchart LR",
#   "  n1([\"events\"])",
#   "  n2[(\"orders\")]",
#   "  n1 -->|\"routing_key=order.new\"| n2",
#   "",
# ]
output "lines" {
  value = split("\n", provider::rabbitmq::topology_diagram(local.small))
}
