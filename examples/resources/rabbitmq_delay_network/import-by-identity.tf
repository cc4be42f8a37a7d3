import {
  to = rabbitmq_delay_network.delays
  identity = {
    vhost = "/"
    name  = "delays"
  }
}
