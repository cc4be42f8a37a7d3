# terraform apply -invoke=action.rabbitmq_redrive.orders
action "rabbitmq_redrive" "orders" {
  config {
    queue = "orders.parking"
    vhost = var.vhost

    filter = {
      origin_queue = "orders"
      newer_than   = "24h"
    }
    max_messages_per_second = 100
  }
}

variable "vhost" {
  type    = string
  default = "/"
}
