import {
  to = rabbitmq_delay_destination.orders
  id = "delays/eu.orders/orders@/"
}
