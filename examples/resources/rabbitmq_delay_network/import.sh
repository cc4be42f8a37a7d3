# name@vhost; write %40 for an @ inside the virtual host's name
terraform import rabbitmq_delay_network.delays 'delays@/'
