variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_redrive" "orders" {
  queue    = "orders.parking"
  vhost    = var.vhost
  triggers = { ticket = "OPS-17" }

  filter = {
    origin_queue = "orders"
    newer_than   = "24h"
  }
  max_messages_per_second = 100
}
