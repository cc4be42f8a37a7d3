variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_discard" "orders" {
  queue    = "orders.parking"
  vhost    = var.vhost
  triggers = { ticket = "OPS-18" }

  filter = {
    headers = jsonencode({ tenant = "test" })
  }
}
